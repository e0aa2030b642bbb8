// Messages that were sent while a run was live. They wait for its end, in their order.

import { $, button, element, visible } from "./text.js";

let waiting = []; // {text, row}
let changed = () => {};
let takenBack = () => {};

// `onChange()` follows each change; `onTakeBack(text)` gets what the user takes back.
export function watchQueue(onChange, onTakeBack) { changed = onChange; takenBack = onTakeBack; }

export const queuedTexts = () => waiting.map((each) => each.text);

export function enqueue(text) {
  const entry = { text };
  const shown = element("span", "what", visible(text));
  const back = button("Take back", "quiet small", () => takeBack(entry));
  back.setAttribute("aria-label", `Take back: ${text.slice(0, 80)}`);
  entry.row = element("li", "", shown, back);
  waiting.push(entry);
  $("queue").append(entry.row);
  $("queue").scrollTop = $("queue").scrollHeight;
  changed();
}

function remove(entry) {
  waiting = waiting.filter((each) => each !== entry);
  entry.row.remove();
  changed();
  return entry.text;
}

function takeBack(entry) { if (waiting.includes(entry)) takenBack(remove(entry)); }
// Each returns whether there was a message.
export function takeBackLast() { if (!waiting.length) return false; takeBack(waiting.at(-1)); return true; }
export function takeBackAll() { const some = waiting.length > 0; while (takeBackLast()); return some; }

// Return the next message to send, or an empty string.
export const takeNext = () => (waiting.length ? remove(waiting[0]) : "");
