// The inbox: questions of all runs that wait for this person, and those that are answered.

import { AskView } from "./asks.js";
import { request } from "./server.js";
import { $, ago, brief, button, element, exact, visible } from "./text.js";

const KINDS = {
  approved: "Approved", denied: "Denied", answered: "Answered",
  expired: "Expired: no one answered in time", withdrawn: "Withdrawn: the run was stopped",
};
const SHOWN = 1000; // milliseconds that an answer is shown where its question was
const cards = new Map(); // run and question -> card; cards are reused, so that they keep what is typed

export async function listInbox(openConversation) {
  const response = await request("inbox");
  if (!response.ok) return;
  const { questions } = await response.json();
  const keys = questions.map((item) => `${item.run} ${item.question.id}`);
  for (const [key, card] of cards) {
    if (keys.includes(key)) continue;
    card.root.remove(); // answered here or elsewhere, expired, or withdrawn
    cards.delete(key);
  }
  questions.forEach((item, place) => {
    const card = cards.get(keys[place]) || newCard(keys[place], item, openConversation);
    card.when.textContent = whenOf(item);
    if ($("inbox-open").children[place] !== card.root) $("inbox-open").insertBefore(card.root, $("inbox-open").children[place] || null);
  });
  $("no-questions").hidden = questions.length > 0;
  $("inbox-count").hidden = questions.length === 0;
  $("inbox-count").textContent = String(questions.length);
  $("inbox-button").setAttribute("aria-label", questions.length ? `Inbox: ${questions.length} open` : "Inbox");
  if ($("inbox").open) await listAnswered();
}

function newCard(key, item, openConversation) {
  const part = { kind: "ask", id: item.question.id, interrupt: item.question, answer: "" };
  const ask = new AskView({ data: { id: item.run }, takeFocus: () => $("inbox-title").focus(), afterAnswer: () => setTimeout(() => listInbox(openConversation).catch(() => {}), SHOWN) }, part);
  ask.update();
  const who = item.is_own ? "Your own run" : visible(item.owner);
  const title = element("p", "who", element("b", "", who), element("span", "", `“${visible(item.title)}”`));
  if (item.approver !== item.owner) title.append(element("span", "", `for ${visible(item.approver)}`));
  if (item.conversation) title.append(button("Open chat", "quiet small", () => { $("inbox").close(); openConversation(item.conversation); }));
  const card = { root: element("li", "card", title), when: element("p", "when") };
  card.root.append(card.when, ask.root);
  cards.set(key, card);
  return card;
}

function whenOf({ asked_at, expires_at }) {
  const now = Date.now() / 1000;
  const parts = [];
  if (asked_at) parts.push(`Asked ${long(now - asked_at)} ago`);
  if (expires_at) parts.push(expires_at > now ? `expires in ${long(expires_at - now)}` : "expires now");
  return parts.join(", ");
}

const long = (seconds) => (seconds < 5400 ? ago(Math.max(0, seconds)) : seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`);

async function listAnswered() {
  const response = await request("audit");
  if (!response.ok) return;
  const { entries } = await response.json();
  $("inbox-answered").replaceChildren(...entries.map((entry) => {
    const { question, kind } = entry;
    const call = question.arguments_text ? brief(question.arguments_text) : question.question || "";
    const what = element("p", "what", element("code", "", exact(question.tool || "")), " ", exact(call));
    const by = entry.by ? ` by ${visible(entry.by)}` : "";
    const how = element("p", `state ${kind}`, `${KINDS[kind] || kind}${by}, ${new Date(entry.given_at * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}`);
    const root = element("li", "", what, how);
    if (entry.text) root.append(element("p", "state", `“${visible(entry.text)}”`));
    root.append(element("p", "state", `Run of ${visible(entry.owner)}${entry.approver !== entry.owner ? `, asked: ${visible(entry.approver)}` : ""}`));
    return root;
  }));
  $("no-answers").hidden = entries.length > 0;
}

export function openInbox(openConversation) {
  $("inbox").showModal();
  $("inbox-title").focus();
  listInbox(openConversation).catch(() => {}); // the next poll may succeed
}
