// A chat with runs that stop. No library, no build step, nothing from elsewhere.

import { $, ORIGINS, ago, button, element, isWaiting, newName, stateText, visible } from "./text.js";
import { errorIn, errorOf, eventsOf, loginFor, meta, pathOf, pause, request, send, untilFound } from "./server.js";
import { addressOf, idInAddress, listConversations, pathOfConversation, turnsOf } from "./conversations.js";
import { listInbox, openInbox } from "./inbox.js";
import { enqueue, queuedTexts, takeBackAll, takeBackLast, takeNext, watchQueue } from "./queue.js";
import { Turn } from "./turns.js";

const STORE = "syncagent:" + location.pathname;
const MAX_TURNS = 60; // kept for a reload
const RECONNECT_DELAYS = [500, 1000, 2000, 4000, 8000]; // in milliseconds
const STOP_TIME = 1000; // milliseconds for the answer to a Stop
const END_TIME = 10000; // and to learn how a run ended
// The codes of a response to a tab that was too late.
const TOO_LATE = ["conversation_changed", "busy", "waiting"];
const hasStore = Boolean(meta("has-store"));

// -- the conversation --------------------------------------------------------------

let conversation = "";
let version = 0; // of the conversation, in a store; 0 before its first run
let turns = [];
let saving = 0;
const current = () => turns.find((turn) => turn.data.live);

function save() {
  clearTimeout(saving); saving = 0;
  const data = turns.slice(-MAX_TURNS).map((turn) => turn.data);
  try { sessionStorage.setItem(STORE, JSON.stringify({ conversation, version, turns: data, queue: queuedTexts() })); } catch { /* the storage is full: a reload shows less */ }
}
export function changed() { if (!saving) saving = setTimeout(save, 250); }

function restore() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(STORE) || "{}");
    conversation = (hasStore && idInAddress()) || kept.conversation || newName();
    if (conversation !== kept.conversation) return;
    version = kept.version || 0;
    for (const data of kept.turns || []) show(new Turn(data));
    for (const text of kept.queue || []) enqueue(text);
  } catch { conversation = newName(); clear(); }
}

// Remove all turns. Runs of a store continue without this page.
function clear() {
  for (const turn of turns) { turn.follower = null; turn.stream?.abort(); }
  turns = [];
  version = 0;
  $("log").replaceChildren();
  $("welcome").hidden = false;
}

function show(turn) {
  turns.push(turn);
  $("log").append(turn.root);
  $("welcome").hidden = true;
  stick(true);
  return turn;
}

let isAtEnd = true;
const scroll = $("scroll");
export function stick(always = false) {
  if (always) isAtEnd = true;
  if (isAtEnd) scroll.scrollTop = scroll.scrollHeight;
  $("newest").hidden = isAtEnd;
}
scroll.addEventListener("scroll", () => {
  isAtEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
  $("newest").hidden = isAtEnd;
}, { passive: true });
const resized = new ResizeObserver(() => stick());
for (const each of [scroll, $("log")]) resized.observe(each); // the composer, or the text, has grown
$("newest").addEventListener("click", () => stick(true));

function notify(message) { $("notice").textContent = message; $("notice").hidden = !message; }
export function announce(message) { $("status").textContent = message; }

function refresh() {
  const turn = current();
  $("stop").hidden = !turn;
  $("send").hidden = Boolean(turn && !prompt.value.trim());
  $("send").textContent = turn ? "Queue" : "Send";
  prompt.placeholder = turn ? "Next message" : "Ask something";
  fit(); // it may be wider or narrower now
  $("stop").disabled = Boolean(turn && turn.data.stopping);
  document.title = (turn ? (isWaiting(turn.data.state) ? "? " : "● ") : "") + document.querySelector("h1").textContent;
}

// Send a message, or queue it while a run is live.
export function submit(text) {
  if (!text.trim()) return;
  if (!current()) { start(text); return; }
  enqueue(text);
  announce("Queued. It is sent when this run has ended.");
}

async function start(prompt) {
  const turn = show(new Turn({ prompt }));
  notify("");
  announce(matchMedia("(hover: none)").matches ? "Sent." : "Sent. Press Esc to stop.");
  refresh();
  save();
  let message = "The server could not be reached.", login = "";
  turn.stream = new AbortController();
  try {
    const body = hasStore ? { prompt, conversation, version } : { prompt, conversation };
    const response = await send("runs", body, "text/event-stream", { signal: turn.stream.signal });
    if (!turns.includes(turn)) { await leaveSent(turn, response); return; }
    if (response.ok) { if (hasStore) version += 1; await follow(turn, response); return; }
    if (hasStore && response.status === 409 && TOO_LATE.includes((await errorIn(response)).code)) { await comeTooLate(turn); return; }
    message = await errorOf(response);
    login = loginFor(await errorIn(response));
  } catch {
    await pause(300); // if the page is being left, the reload resumes the run
    if (!turns.includes(turn)) return;
    if (turn.data.stopping) message = "Stopped before the server responded. Whether a run started is not known.";
  }
  fail(turn, message, login);
}

// Another conversation is shown by now. A run that began continues there.
async function leaveSent(turn, response) {
  if (response.ok) { response.body.cancel(); return; }
  announce(await errorOf(response));
  giveBack(turn);
}

// Put the text of a turn that did not begin, or of the queue, back into the box.
function giveBack(turn) { putBack(turn.data.prompt); }
function putBack(text) {
  prompt.value = [text, prompt.value].filter(Boolean).join("\n");
  refresh();
}

// The run has ended: send the next message, unless the user should decide first.
function goOn(isExpected) {
  if (!isExpected) { if (takeBackAll()) announce("Not sent: the queued messages are back in the box."); return; }
  const next = takeNext();
  if (next) start(next);
}

// Another tab was faster: show what it did, and keep the text.
async function comeTooLate(turn) {
  turns = turns.filter((each) => each !== turn);
  turn.root.remove();
  takeBackAll();
  giveBack(turn);
  announce("Not sent.");
  await load(true);
  notify("This chat has continued in another tab. Here is how it stands; your message is still in the box and was not sent.");
  prompt.focus();
}

// End a turn without knowing how its run ended.
function fail(turn, message, login = "") {
  turn.finish({ error: { message, login } }, false);
  announce(message);
  refresh();
  save();
  goOn(false);
}

// Follow a run to its end, and reconnect if the connection breaks.
async function follow(turn, response) {
  let tries = 0, problem = "Lost the connection to the server.";
  const me = (turn.follower = {}); // leave() and a new follower take its place
  while (turn.data.live) {
    try {
      if (!response) {
        const headers = { Accept: "text/event-stream" };
        if (turn.data.last) headers["Last-Event-ID"] = String(turn.data.last);
        turn.stream = new AbortController();
        response = await untilFound(() => request(pathOf(turn.data.id, "/events"), { headers, signal: turn.stream.signal }));
      }
      if (response.status === 404) { fail(turn, `${await errorOf(response)} How the run ended is not known.`); return; }
      if (response.status === 204) { turn.finish(await (await untilFound(() => request(pathOf(turn.data.id)))).json()); break; }
      if (!response.ok) {
        problem = await errorOf(response);
        if (response.status === 503) tries = Math.min(tries, RECONNECT_DELAYS.length - 2); // it says "later"
        throw new Error(problem);
      }
      turn.data.id = response.headers.get("X-Run-Id") || turn.data.id;
      turn.note = "";
      save(); // a reload can now resume it
      listRuns();
      if (turn.data.stopping && !turn.isStopSent) stop(turn);
      for await (const [name, data, id] of eventsOf(response)) {
        if (turn.follower !== me) return;
        tries = 0;
        turn.handle(name, data, id);
        refresh();
      }
    } catch { /* the connection broke: reconnect below */ }
    response = null;
    if (turn.follower !== me) return;
    if (!turn.data.live) break;
    if (!turn.data.id || tries >= RECONNECT_DELAYS.length) { fail(turn, `${problem} How the run ended is not known.`); return; }
    if (tries) { turn.note = "Connection lost; reconnecting"; turn.drawState(); }
    await pause(RECONNECT_DELAYS[tries++]);
    if (turn.follower !== me) return;
  }
  const { cancellation, error } = turn.data.end;
  announce(cancellation ? ORIGINS[turn.data.left ? "user" : cancellation.origin] + "." : error ? error.message : "Done.");
  save();
  refresh();
  listRuns();
  goOn(!cancellation && !error);
}

async function stop(turn) {
  if (!turn || !turn.data.live) return;
  turn.data.stopping = true; // a reload does not forget it
  announce("Stopping");
  turn.drawState();
  refresh();
  save();
  if (!turn.data.id) { // as soon as the run has an id; a server that never responds is left
    await pause(STOP_TIME);
    if (!turn.data.id) turn.stream?.abort();
    return;
  }
  if (turn.isStopSent) return;
  turn.isStopSent = true;
  if (turn.data.isStored) { // any process of the server can stop it, and only a Stop does
    let problem = "";
    for (const until = Date.now() + END_TIME; turn.data.live && (problem = await stopRun(turn.data.id)) && Date.now() < until;) await pause(500);
    if (!problem || !turn.data.live) return;
    turn.data.stopping = turn.isStopSent = false;
    announce(`${problem} The run was not stopped.`);
    turn.drawState();
    refresh();
    save();
    return;
  }
  // A server with a single thread responds to it only after the stream is closed.
  const error = await Promise.race([stopRun(turn.data.id), pause(STOP_TIME).then(() => "The server does not respond.")]);
  if (error && turn.data.live) await leave(turn, error);
}

// Cancel a run; return an error message, or an empty string.
async function stopRun(id) {
  try {
    const response = await untilFound(() => send(pathOf(id, "/cancel"), { reason: "the Stop button" }));
    return response.status === 202 || response.status === 409 ? "" : await errorOf(response);
  } catch { return "The server could not be reached."; }
}

// Close the stream of a run, which ends the run where it lives, and ask how it ended.
async function leave(turn, error) {
  turn.data.left = true;
  turn.follower = null;
  turn.stream.abort();
  turn.note = "Stopping: the connection of this run is closed; waiting for its end";
  turn.drawState();
  for (const until = Date.now() + END_TIME; Date.now() < until; await pause(250)) {
    try {
      const response = await untilFound(() => request(pathOf(turn.data.id), { signal: AbortSignal.timeout(END_TIME) }));
      const view = response.ok ? await response.json() : null;
      if (!view) error = await errorOf(response);
      // To follow a live run again would keep it alive.
      if (view && !view.is_live) { await follow(turn, null); return; }
      if (view) await stopRun(turn.data.id);
    } catch { /* the next try may succeed */ }
  }
  fail(turn, `${error} The page has closed the connection of this run, so the server ends it soon, unless another page follows it. How it ended is not known.`);
}

// -- all runs ----------------------------------------------------------------------

let polling = 0;
async function listRuns() {
  clearTimeout(polling);
  try {
    const response = await request("runs");
    if (response.ok) drawRuns((await response.json()).runs);
    if (hasStore) await Promise.all([listChats(), listInbox(openChat)]);
  } catch { /* the next poll may succeed */ }
  clearTimeout(polling);
  if (!document.hidden) polling = setTimeout(listRuns, current() ? 1500 : 4000);
}

// Learn who has to answer the questions that a run has just asked.
export async function learnApprovers(turn) {
  for (let tries = 1; tries <= 10 && turn.data.live; tries++) {
    try {
      const view = await (await request(pathOf(turn.data.id))).json();
      const hasApprovers = Object.keys(view.approvers).length > 0; // also while a sub-agent asks
      if (isWaiting(view.state) || hasApprovers) { turn.setApprovers(view.approvers); return; }
    } catch { /* the next try may succeed */ }
    await pause(50 * tries); // events may be faster than the state
  }
}

// Learn how a run ended that another process had, or that was lost for a while.
async function learn(turn) {
  try {
    const response = await untilFound(() => request(pathOf(turn.data.id)));
    const view = response.ok ? await response.json() : { is_live: true };
    if (!view.is_live && turn.data.isUnknown) { turn.finish(view); save(); }
  } catch { /* the next poll may succeed */ }
}

const rows = new Map(); // id -> row; rows are reused, so that they keep the focus
function drawRuns(runs) {
  // The process that has sent the list may not be the one that has a run of this page.
  for (const { data } of turns) {
    if (!data.id || !(data.live || data.isUnknown) || runs.some((run) => run.id === data.id)) continue;
    runs = [{ id: data.id, prompt: data.prompt, state: data.state, tool: data.tool, is_live: data.live, isUnknown: data.isUnknown, started_at: data.startedAt || Date.now() / 1000 }, ...runs];
  }
  const live = runs.filter((run) => run.is_live);
  const ended = runs.filter((run) => !run.is_live).slice(0, 20);
  for (const [list, these] of [[$("live"), live], [$("finished"), ended]]) {
    these.forEach((run, place) => {
      const row = rowOf(run);
      if (list.children[place] !== row.root) list.insertBefore(row.root, list.children[place] || null);
    });
    while (list.children.length > these.length) list.lastChild.remove();
  }
  for (const turn of turns) if (turn.data.isUnknown && ended.some((run) => run.id === turn.data.id && !run.isUnknown)) learn(turn);
  for (const id of rows.keys()) if (!runs.some((run) => run.id === id)) rows.delete(id);
  $("no-live").hidden = live.length > 0;
  $("no-finished").hidden = ended.length > 0;
  $("live-count").hidden = live.length === 0;
  $("live-count").textContent = String(live.length);
}

function rowOf(run) {
  let row = rows.get(run.id);
  const title = visible(run.prompt || run.agent || run.run_id.slice(0, 8));
  if (!row) {
    row = { root: element("li", ""), what: element("span", "what", title), state: element("span", "state") };
    row.what.title = title;
    row.root.append(row.what, row.state);
    rows.set(run.id, row);
  }
  if (row.isLive !== run.is_live) {
    row.isLive = run.is_live;
    row.button?.remove();
    row.button = run.is_live
      ? button("Stop", "stop small", async () => { row.button.disabled = true; const own = turns.find((t) => t.data.id === run.id); if (own) await stop(own); else { const error = await stopRun(run.id); if (error) announce(error); } listRuns(); })
      : button("Timeline", "quiet small", () => showTimeline(run.id, title));
    row.button.setAttribute("aria-label", `${run.is_live ? "Stop" : "Timeline of"}: ${title}`);
    row.root.append(row.button);
  }
  // A store keeps no recording; and the run's own place on the page has the button, too.
  row.button.hidden = !run.is_live && (run.is_stored || turns.some((turn) => turn.data.id === run.id));
  const seconds = Math.max(0, (run.ended_at || Date.now() / 1000) - run.started_at);
  const approver = Object.values(run.approvers || {})[0];
  const label = run.is_live ? (approver ? `Waiting for ${visible(approver)}` : stateText(run.state, run.tool)) : run.error ? "Failed" : run.cancellation ? "Stopped" : "Done";
  row.state.textContent = run.isUnknown ? "Unknown" : `${label}, ${ago(seconds)}`;
  row.state.className = "state" + (run.is_live && isWaiting(run.state) ? " waits" : !run.is_live && label !== "Done" ? " stopped" : "");
  return row;
}

export function showTimeline(id, title) {
  const path = pathOf(id, "/timeline");
  $("timeline-title").textContent = title.length > 60 ? title.slice(0, 60) + "…" : title;
  $("timeline-link").href = path;
  $("timeline-frame").src = path;
  $("timeline").showModal();
}

// -- keys and buttons --------------------------------------------------------------

const prompt = $("prompt");
watchQueue(changed, (text) => { putBack(text); prompt.focus(); });
function fit() { prompt.style.height = "auto"; prompt.style.height = prompt.scrollHeight + "px"; }
// Not on a phone, where the keyboard would hide the page.
function focusPrompt() { if (matchMedia("(min-width: 60rem)").matches) prompt.focus(); }
function askPrompt() {
  const text = prompt.value;
  if (!text.trim()) return;
  prompt.value = "";
  submit(text);
  refresh();
}
prompt.addEventListener("input", refresh);
prompt.addEventListener("keydown", (event) => {
  if (event.key === "ArrowUp" && !prompt.value && takeBackLast()) event.preventDefault();
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); askPrompt(); }
});
$("composer").addEventListener("submit", (event) => { event.preventDefault(); askPrompt(); });
$("stop").addEventListener("click", () => { stop(current()); prompt.focus(); });
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing || document.querySelector("dialog[open]")) return;
  if (event.target.matches(".ask input, .ask select, .ask textarea")) return; // Esc belongs to the field
  if ($("runs").classList.contains("open")) toggleRuns(false);
  else if (current()) { event.preventDefault(); stop(current()); }
});
function toggleRuns(isOpen) {
  $("runs").classList.toggle("open", isOpen);
  $("runs-button").setAttribute("aria-expanded", String(isOpen));
  if (isOpen) listRuns();
}
$("runs-button").addEventListener("click", () => toggleRuns(!$("runs").classList.contains("open")));
$("timeline-close").addEventListener("click", () => $("timeline").close());
$("timeline").addEventListener("close", () => $("timeline-frame").removeAttribute("src"));
$("suggestions").addEventListener("click", (event) => { if (event.target.matches("button")) submit(event.target.textContent); });
$("new").addEventListener("click", () => {
  if (hasStore) openChat(newName(), true);
  else if (current()) { announce("Stop the current run first, or wait for it to finish."); return; }
  else { clear(); conversation = newName(); save(); }
  announce("New chat started.");
  prompt.focus();
});
$("inbox-button").addEventListener("click", () => openInbox(openChat));
$("inbox-close").addEventListener("click", () => $("inbox").close());
$("inbox").addEventListener("close", focusPrompt);
if (hasStore) addEventListener("hashchange", () => { if (idInAddress()) openChat(idInAddress()); });
addEventListener("pagehide", save);
document.addEventListener("visibilitychange", () => { if (document.hidden) save(); else listRuns(); });

// -- conversations in a store ------------------------------------------------------

// Show another conversation.
function openChat(id, isNew = false) {
  toggleRuns(false);
  if (id === conversation) return;
  takeBackAll();
  clear();
  notify("");
  conversation = id;
  if (idInAddress() !== id) history.pushState(null, "", addressOf(id));
  save();
  refresh();
  if (!isNew) load();
  focusPrompt();
}

// Read the conversation, and draw it unless this page has shown all of it.
async function load(isChanged = false) {
  const id = conversation;
  let response;
  try {
    response = await request(pathOfConversation(id));
    if (id !== conversation) return;
    if (response.status === 404) {
      if (version) { clear(); save(); refresh(); notify("This chat was deleted."); }
      return;
    }
    if (!response.ok) { announce(await errorOf(response)); return; }
    const view = await response.json();
    const isSending = turns.some((turn) => turn.data.live && turn.stream && !turn.data.id); // its response says more
    if (id === conversation && !isSending && (isChanged || view.version !== version)) draw(view);
  } catch { announce("The server could not be reached."); }
}

function draw(view) {
  clear();
  version = view.version;
  for (const data of turnsOf(view.messages)) show(new Turn(data));
  if (view.live_run) follow(show(new Turn({ prompt: view.prompt, id: view.live_run, isStored: true })), null);
  save();
  refresh();
}

const ACTIONS = {
  open: openChat,
  deleted(id) { if (id === conversation) openChat(newName(), true); announce("The chat was deleted."); listRuns(); },
  announce,
};

// List the conversations, and read the open one again if another tab has continued or deleted it.
async function listChats(isFirst = false) {
  const id = conversation;
  const listed = await listConversations(id, ACTIONS);
  if (!listed || id !== conversation || (current() && !isFirst)) return;
  const known = listed.entry ? listed.entry.version : listed.isComplete ? 0 : version;
  if (known !== version || (isFirst && !listed.entry && !listed.isComplete)) await load();
}

// -- start -------------------------------------------------------------------------

// Resume a run that was live when the page was left.
async function resume(turn) {
  announce("Resuming.");
  if (!turn.data.id) { // the page was left before the server responded
    try {
      const { runs } = await (await request("runs")).json();
      turn.data.id = runs.find((run) => run.is_live && run.conversation === conversation)?.id || "";
    } catch { /* the id stays unknown */ }
    if (!turn.data.id) { fail(turn, "The page was closed before the server responded. Whether a run started is not known."); return; }
  }
  follow(turn, null);
}

async function begin() {
  restore();
  refresh();
  const kept = turns.filter((turn) => turn.data.live);
  if (hasStore) {
    for (const id of ["chats", "inbox-button"]) $(id).hidden = false;
    $("runs-label").textContent = "Chats";
    history.replaceState(null, "", addressOf(conversation));
    await listChats(true).catch(() => announce("The server could not be reached."));
  }
  for (const turn of kept) if (turns.includes(turn)) resume(turn);
  if (!current()) takeBackAll();
  refresh();
  listRuns();
}

begin();
focusPrompt();
