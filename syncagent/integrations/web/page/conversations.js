// The conversations of a store: their list, and their messages as turns.

import { request, send } from "./server.js";
import { $, button, element, visible } from "./text.js";

const MAX_LISTED = 200; // as many as the server lists
const CONFIRM_TIME = 4000; // milliseconds to confirm a deletion

export const pathOfConversation = (id, action = "") => "conversations/" + encodeURIComponent(id) + action;

// The address of the page names the conversation, so that a reload and a bookmark reopen it.
const PREFIX = "#c=";
export const addressOf = (id) => PREFIX + encodeURIComponent(id);
export function idInAddress() {
  if (!location.hash.startsWith(PREFIX)) return "";
  try { return decodeURIComponent(location.hash.slice(PREFIX.length)); } catch { return ""; }
}

const MEDIA = { image: () => "[image]", file: (block) => `[${block.name || "file"}]` };

// Return the data of turns, as `Turn` takes it, for the messages of ended runs.
export function turnsOf(messages) {
  const found = [];
  const start = (prompt) => found.push({ prompt, live: false, isStored: true, parts: [], end: {} });
  for (const message of messages) {
    if (message.role === "user") start(message.content.map((block) => block.text || MEDIA[block.type]?.(block) || "").join("\n"));
    else if (!found.length) start(""); // messages that another system has kept may begin with anything
    const turn = found.at(-1);
    if (message.role === "user") continue;
    if (message.is_cut) turn.end = { isCut: true };
    for (const block of message.content) addBlock(turn.parts, block);
  }
  return found;
}

function addBlock(parts, block) {
  const { type, text = "", call_id = "", name = "" } = block;
  if (type === "tool_call") parts.push({ kind: "tool", call_id, name, args: block.arguments || "{}", how: "unknown", note: "", result: "" });
  else if (type === "tool_result") {
    const tool = parts.findLast((part) => part.kind === "tool" && part.call_id === call_id);
    if (tool) { tool.how = block.is_error ? "error" : "done"; tool.result = text; }
  } else parts.push({ kind: type === "thinking" ? "thinking" : "text", text: text || MEDIA[type]?.(block) || "" });
}

// -- the list ----------------------------------------------------------------------

const rows = new Map(); // id -> row; rows are reused, so that they keep the focus

// Draw the list; `actions` has open(id), deleted(id) and announce(message).
export async function listConversations(openId, actions) {
  const response = await request("conversations");
  if (!response.ok) return null;
  const { conversations } = await response.json();
  const list = $("chat-list");
  conversations.forEach((each, place) => {
    const row = rowOf(each, actions);
    row.root.toggleAttribute("aria-current", each.id === openId);
    if (list.children[place] !== row.root) list.insertBefore(row.root, list.children[place] || null);
  });
  while (list.children.length > conversations.length) list.lastChild.remove();
  for (const id of rows.keys()) if (!conversations.some((each) => each.id === id)) rows.delete(id);
  $("no-chats").hidden = conversations.length > 0;
  return { entry: conversations.find((each) => each.id === openId), isComplete: conversations.length < MAX_LISTED };
}

function rowOf(each, actions) {
  let row = rows.get(each.id);
  if (!row) {
    row = { root: element("li", ""), state: element("span", "state") };
    row.title = button("", "title", () => actions.open(each.id));
    row.remove = button("Delete", "quiet small", () => confirmDeletion(row, each.id, actions));
    row.root.append(row.title, row.state, row.remove);
    rows.set(each.id, row);
  }
  const title = visible(each.title) || "Untitled";
  if (row.title.textContent !== title) {
    row.title.textContent = row.title.title = title;
    row.remove.setAttribute("aria-label", `Delete: ${title}`);
  }
  row.state.textContent = each.live_run ? "Running" : new Date(each.changed_at * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  return row;
}

// The first click asks, the second one deletes.
async function confirmDeletion(row, id, actions) {
  if (!row.isAsking) {
    row.isAsking = true;
    row.remove.textContent = "Really?";
    row.remove.className = "stop small";
    setTimeout(() => { row.isAsking = false; row.remove.textContent = "Delete"; row.remove.className = "quiet small"; }, CONFIRM_TIME);
    return;
  }
  row.remove.disabled = true;
  try {
    const response = await send(pathOfConversation(id, "/delete"), {});
    if (response.ok || response.status === 404) actions.deleted(id);
    else actions.announce("The chat could not be deleted.");
  } catch { actions.announce("The server could not be reached."); }
  row.remove.disabled = false;
}
