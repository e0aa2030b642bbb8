// Text, labels and elements. Text of models, tools and servers is never inserted as markup.

export const $ = (id) => document.getElementById(id);

// -- text that shows what it is ----------------------------------------------------

// JSON.parse() rounds numbers. What tools report keeps those it would round, as marked strings.
export const newName = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (n) => n.toString(16).padStart(2, "0")).join("");
export const MARK = newName();
const NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const isExact = (token) => token[0] === '"' || String(Number(token)) === token;
export const parse = (name, data) => JSON.parse(name.startsWith("tool_") ? data.replace(NUMBER, (token) => (isExact(token) ? token : `"${MARK}${token}"`)) : data);
export const pretty = (value) => JSON.stringify(value, null, 2).replace(new RegExp(`"${MARK}([^"]*)"`, "g"), "$1");

// Characters that are not seen, or that turn the text around them, make one text look like
// another. They are shown as JSON writes them.
const escaped = (text) => Array.from({ length: text.length }, (_, n) => "\\u" + text.charCodeAt(n).toString(16).padStart(4, "0")).join("");
// All of them, for the arguments and the names of tools.
export const exact = (text) => String(text).replace(/(?![\n\t ])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/gu, escaped);
// For prose: emoji, and scripts that need joiners, are kept together.
const PROSE = new RegExp([
  String.raw`((?:\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]*\u200d?)+(?<!\u200d)`,
  String.raw`[0-9#*]\ufe0f\u20e3`,
  String.raw`(?<=[\u0600-\u109f\u1780-\u18af])[\u200c\u200d](?=[\u0600-\u109f\u1780-\u18af])`,
  String.raw`\r\n|[\n\t])`,
  String.raw`(?!\p{Zs})[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]`,
].join("|"), "gu");
export const visible = (text) => String(text).replace(PROSE, (each, kept) => kept ?? escaped(each));

// -- labels ------------------------------------------------------------------------

export const STATES = {
  idle: "Idle", queued: "Waiting for a free worker", running: "Working", processing: "The model is working", waiting_for_approval: "Waiting for your approval",
  waiting_for_auth: "Waiting for credentials", waiting_for_input: "Waiting for your answer",
  executing_tool: "Running", waiting_for_agent: "Waiting for another agent", done: "Done", failed: "Failed",
};
export const ORIGINS = {
  user: "You stopped this", disconnect: "Stopped because no page was open", deadline: "Stopped because it took too long",
  shutdown: "Stopped because the server is shutting down", limit: "Stopped at a limit", signal: "Stopped by the server",
  parent: "Stopped with the run that started it", remote: "Stopped by an operator", hook: "Stopped by a policy", closed: "Stopped",
};
export const PHASES = {
  stream: "while it was writing", tool: "while a tool was running", approval: "while waiting for your approval", auth: "while waiting for credentials",
  input: "while waiting for your answer", retry: "while waiting to retry", agent: "while another agent was working", headers: "before the first word", "first event": "before the first word",
};
export const STOPS = { limit: "A limit was reached.", max_tokens: "The response was too long and is cut off.", refusal: "The model refused the request.", other: "The provider ended the response irregularly." };
export const OUTCOMES = { done: "done", failed: "failed", denied: "denied", not_started: "not started", interrupted: "stopped", abandoned: "left running", unknown: "unknown", error: "no result" };
export const stateText = (state, tool) => (state === "executing_tool" && tool ? `Running ${exact(tool)}` : (STATES[state] || state) + (tool && state.startsWith("waiting") ? `: ${exact(tool)}` : ""));
export const isWaiting = (state) => /^waiting_for_(approval|auth|input)$/.test(state);
export const ago = (seconds) => (seconds < 1 ? Math.round(seconds * 1000) + " ms" : seconds < 90 ? (seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)) + " s" : Math.round(seconds / 60) + " min");
export function tokensText(usage) {
  const { input_tokens: read = 0, output_tokens: written = 0, estimated = false } = usage || {};
  return read || written ? `${estimated ? "about " : ""}${read} tokens in, ${written} out` : "";
}

export function element(tag, className, ...inside) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...inside); // strings become text
  return made;
}

// A link. To the same address it loads the page again, even with a part after "#".
export function link(label, className, href) {
  const made = element("a", className, label);
  made.href = href;
  made.addEventListener("click", (event) => { if (href === location.href) { event.preventDefault(); location.reload(); } });
  return made;
}

export function button(label, className, onclick) {
  const made = element("button", className, label);
  made.type = "button";
  made.addEventListener("click", onclick);
  return made;
}

// The text of arguments. Each string is set apart, so that none changes the order of its neighbours.
export function showArguments(root, text) {
  root.dir = "ltr";
  root.replaceChildren(...exact(text).split(/("(?:[^"\\]|\\.)*")/).filter(Boolean).map((part) => (part[0] === '"' ? element("bdi", "", part) : part)));
}
export const brief = (text) => text.slice(0, 300).replace(/\s*\n\s*/g, " ").replace(/^\{ ?| ?\}$/g, "");
export const textOf = (blocks) => (blocks || []).map((b) => b.text ?? (b.type === "json" ? pretty(b.value) : `[${b.type}]`)).join("\n");
