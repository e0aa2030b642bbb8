// One prompt and its run: its events, and how the page shows them.

import { AskView } from "./asks.js";
import { announce, changed, learnApprovers, showTimeline, stick, submit } from "./page.js";
import { blocks, settledAt } from "./markdown.js";
import { errorOf, pathOf, send, untilFound } from "./server.js";
import { $, MARK, ORIGINS, OUTCOMES, PHASES, STOPS, ago, brief, button, element, exact, isWaiting, link, pretty, showArguments, stateText, textOf, tokensText, visible } from "./text.js";

// The data of a turn is plain JSON, so that a reload can resume it.
export class Turn {
  constructor(data) {
    this.known = 0;
    this.open = new Set();
    this.data = { prompt: "", id: "", last: 0, live: true, parts: [], turn: 0, kept: { parts: 0, length: 0 }, lagged: false, end: null, state: "", tool: "", stopping: false, ...data };
    this.views = new Map(); // part -> its view
    this.root = element("article", "turn");
    this.root.setAttribute("aria-label", "You asked: " + this.data.prompt.slice(0, 80));
    this.body = element("div", "answer");
    this.working = element("p", "working", "Sending");
    this.foot = element("div");
    const asked = element("p", "asked", this.data.prompt);
    asked.hidden = !this.data.prompt;
    this.root.append(asked, this.body, this.working, this.foot);
    for (const part of this.data.parts) this.draw(part);
    this.drawEnd();
    this.drawState();
  }

  // Handle an event of the run.
  handle(name, data, id) {
    if (id) this.data.last = id;
    const handler = HANDLERS[name];
    if (handler) handler(this, data);
    changed();
  }

  // True while a replay repeats events from before the state in `run`.
  get isOld() { return this.data.last <= this.known; }

  add(part) { this.data.parts.push(part); this.draw(part); return part; }
  part(kind, key, value) { return this.data.parts.findLast((p) => p.kind === kind && p[key] === value); }

  say(kind, text) {
    let last = this.data.parts.at(-1);
    if (!last || last.kind !== kind) last = this.add({ kind, text: "" });
    last.text += text;
    this.draw(last);
  }

  // Remember what stays if another worker takes over the run.
  keep() { this.data.kept = { parts: this.data.parts.length, length: this.data.parts.at(-1)?.text?.length }; }

  // Drop what came after that: the model is asked again.
  drop() {
    const { parts, kept } = this.data;
    for (const part of parts.splice(kept.parts)) { this.views.get(part)?.root.remove(); this.views.delete(part); }
    const last = parts.at(-1);
    if (last && kept.length < last.text?.length) {
      last.text = last.text.slice(0, kept.length);
      this.views.get(last).restart?.();
      this.draw(last);
    }
    this.data.turn = parts.length;
    this.data.lagged = false;
  }

  tool(call_id, name) {
    return this.part("tool", "call_id", call_id) || this.add({ kind: "tool", call_id, name, args: "", how: "writing", note: "", result: "" });
  }

  ask(interrupt) {
    if (interrupt.type === "after_tools") return;
    const before = this.part("ask", "id", interrupt.id);
    // Asked again, as after an answer with other arguments, unless a replay repeats it.
    if (before && (!before.answer || (this.isOld && !this.open.has(interrupt.id)))) return;
    const part = this.add({ kind: "ask", id: interrupt.id, call_id: interrupt.call_id, interrupt, answer: "" });
    if (interrupt.call_id) {
      const tool = this.tool(interrupt.call_id, interrupt.tool);
      tool.how = "waiting"; tool.args = interrupt.arguments_text || tool.args;
      this.draw(tool);
    }
    announce(isWaiting(this.data.state) ? stateText(this.data.state, interrupt.tool) : "A question needs your answer");
    const root = this.views.get(part).root;
    const isFree = document.activeElement === $("prompt") ? !$("prompt").value : document.activeElement === document.body;
    // Do not interrupt typing, and do not let a key press approve by mistake.
    if (isFree) (root.querySelector("input:not([type=checkbox])") || root).focus({ preventScroll: true });
  }

  // Show who has to answer, where that is not the owner of the run.
  setApprovers(approvers) {
    for (const part of this.data.parts) {
      if (part.kind !== "ask" || part.answer || part.approver === approvers[part.id]) continue;
      part.approver = approvers[part.id];
      this.draw(part);
      if (part.approver) announce(`Waiting for an answer from ${visible(part.approver)}`);
    }
  }

  takeFocus() { $("prompt").focus(); }

  close(test, label) {
    for (const part of this.data.parts) {
      if (part.kind === "ask" && !part.answer && test(part)) { part.answer = typeof label === "string" ? label : label(part); this.draw(part); }
    }
  }

  // Close questions, except those that are still open after the events that are replayed.
  answered(test) { this.close((part) => test(part) && !(this.isOld && this.open.has(part.id)), (part) => part.sent || "Already answered."); }

  draw(part) {
    let view = this.views.get(part);
    if (!view) {
      view = new VIEWS[part.kind](this, part);
      this.views.set(part, view);
      this.body.append(view.root);
    }
    view.update();
    stick();
  }

  drawState() {
    const { live, state, tool, parts } = this.data;
    const last = parts.at(-1);
    this.working.hidden = !live || (!this.note && ((last?.kind === "text" && state === "processing") || isWaiting(state)));
    this.working.textContent = this.note || (this.data.stopping ? "Stopping" : state ? stateText(state, tool) : "Sending");
    this.root.toggleAttribute("aria-busy", live);
    for (const [part, view] of this.views) if (part.kind === "text") view.update();
  }

  drawEnd() {
    const { end, id } = this.data;
    this.foot.replaceChildren();
    if (!end) return;
    if (end.cancellation) {
      const { origin, phase, latency, reason } = end.cancellation;
      const how = element("b", "", this.data.left && origin === "disconnect" ? ORIGINS.user : ORIGINS[origin] || "Stopped");
      const where = PHASES[phase] || `at “${phase}”`;
      const note = element("p", "note stopped", how, `${where}. It took ${ago(latency)}.`);
      if (reason && origin === "remote") note.append(element("span", "", visible(reason))); // an element, to be set apart
      this.foot.append(note);
    }
    if (end.error) {
      const note = element("p", "note error", visible(end.error.message));
      if (end.error.login) note.append(link("Log in", "login", end.error.login));
      note.append(button("Ask again", "quiet small", () => submit(this.data.prompt)));
      this.foot.append(note);
    } else if (STOPS[end.stop_reason]) this.foot.append(element("p", "note", STOPS[end.stop_reason]));
    else if (end.isCut) this.foot.append(element("p", "note", "This response was cut off."));
    const facts = [];
    if (end.seconds != null) facts.push(ago(end.seconds));
    if (end.tokens) facts.push(end.tokens);
    if (end.cost) facts.push(`$${end.cost.toFixed(4)}`);
    const line = element("p", "note", ...(facts.length ? [facts.join(" · ")] : []));
    if (id && !this.data.isStored) line.append(button("Timeline", "quiet small", () => showTimeline(id, this.data.prompt)));
    if (line.hasChildNodes()) this.foot.append(line);
  }

  // End the turn, as the server says in `view`, or without knowing how the run ended.
  finish(view, isKnown = true) {
    const now = this.data;
    now.live = now.stopping = false;
    now.isUnknown = !isKnown;
    this.note = "";
    this.close(() => true, isKnown ? "No longer needed." : "Not answered here.");
    for (const part of now.parts) {
      if (part.kind === "tool" && ["writing", "waiting", "running", "unknown"].includes(part.how)) {
        const outcome = (view.tool_outcomes || []).find((each) => each.call_id === part.call_id);
        part.how = outcome ? outcome.outcome : isKnown && (part.how === "writing" || part.how === "waiting") ? "not_started" : "unknown";
        part.note = "";
        this.draw(part);
      }
    }
    const seconds = view.ended_at && view.started_at ? view.ended_at - view.started_at : null;
    now.end = { stop_reason: view.stop_reason, cancellation: view.cancellation, error: view.error, seconds, tokens: tokensText(view.usage), cost: view.cost };
    // Text that arrived while no page was open, and that the buffer has dropped.
    if (view.text && !now.parts.some((part) => part.kind === "text")) this.say("text", view.text);
    this.drawEnd();
    this.drawState();
  }
}

// The page ignores events that are not listed here.
const HANDLERS = {
  run(turn, view) {
    turn.data.id = view.id;
    turn.data.startedAt = view.started_at;
    turn.data.isStored = view.is_stored;
    // Of a run in a store only its events say more than "running".
    if (view.state !== "running" || !turn.data.last) { turn.data.state = view.state; turn.data.tool = view.tool; }
    // The current state. The events that follow are older, up to this number.
    turn.known = view.events;
    turn.open = new Set(view.interrupts.map((interrupt) => interrupt.id));
    for (const interrupt of view.interrupts) turn.ask(interrupt);
    turn.setApprovers(view.approvers || {});
    turn.drawState();
  },
  state_changed(turn, data) {
    turn.data.state = data.state; turn.data.tool = data.tool || "";
    if (!isWaiting(data.state)) turn.answered(() => true);
    turn.drawState();
  },
  message_started(turn) { turn.data.turn = turn.data.parts.length; },
  text_delta(turn, data) { turn.say("text", data.text); turn.drawState(); },
  thinking_delta(turn, data) { turn.say("thinking", data.text); },
  tool_call_started(turn, data) { turn.tool(data.call_id, data.name); turn.drawState(); },
  tool_call_ready(turn, data) {
    const tool = turn.tool(data.call.call_id, data.call.name);
    tool.args = data.call.arguments || "{}";
    turn.draw(tool);
  },
  interrupt_raised(turn, data) {
    for (const interrupt of data.interrupts) turn.ask(interrupt);
    turn.keep();
    if (turn.data.isStored && !turn.isOld) learnApprovers(turn);
  },
  tool_started(turn, data) {
    turn.answered((part) => part.call_id === data.call_id);
    const tool = turn.tool(data.call_id, data.name);
    tool.args = data.arguments_text || tool.args; tool.how = "running";
    turn.draw(tool);
    turn.keep();
  },
  tool_progress(turn, data) {
    const tool = turn.tool(data.call_id, data.name);
    tool.note = typeof data.value === "string" && !data.value.startsWith(MARK) ? data.value : pretty(data.value);
    turn.draw(tool);
  },
  tool_finished(turn, data) {
    turn.answered((part) => part.call_id === data.call_id);
    const tool = turn.tool(data.call_id, data.name);
    tool.how = data.outcome; tool.note = ""; tool.result = textOf(data.result.content);
    turn.draw(tool);
    turn.keep();
  },
  resumed(turn) { turn.drop(); announce("Another worker of the server has taken over."); },
  lagged(turn) { turn.data.lagged = true; },
  turn_finished(turn, data) {
    if (!turn.data.lagged) return;
    turn.data.lagged = false; // this event has the complete text
    const text = (data.message.content || []).filter((b) => b.type === "text").map((b) => b.text).join("");
    const own = turn.data.parts.slice(turn.data.turn).find((part) => part.kind === "text");
    if (own) { own.text = text; turn.views.get(own).restart(); turn.draw(own); } else if (text) turn.say("text", text);
  },
  end(turn, view) { turn.finish(view); },
};

class TextView {
  constructor(turn, part) {
    this.turn = turn; this.part = part;
    this.root = element("div", "text");
    this.restart();
  }
  restart() {
    this.settled = 0;
    this.drawn = -1;
    this.isFinal = false;
    this.tail = element("div", "tail");
    this.root.replaceChildren(this.tail);
  }
  update() {
    const { data } = this.turn;
    const isLast = data.parts.at(-1) === this.part;
    this.root.classList.toggle("writing", data.live && isLast && data.state === "processing");
    this.root.classList.toggle("cut", isLast && Boolean(data.end && (data.end.cancellation || data.end.error || data.end.isCut)));
    const isFinal = !data.live || !isLast;
    if (this.drawn === this.part.text.length && this.isFinal === isFinal) return;
    this.isFinal = isFinal;
    if (isFinal) { this.drawText(); return; } // at once
    if (this.waiting) return;
    this.waiting = true; // at most once per frame
    requestAnimationFrame(() => { this.waiting = false; if (this.drawn !== this.part.text.length) this.drawText(); stick(); });
  }
  drawText() {
    const { text } = this.part;
    const settled = settledAt(text, this.settled);
    if (settled > this.settled) this.tail.before(...blocks(text.slice(this.settled, settled)));
    this.settled = settled;
    this.tail.replaceChildren(...blocks(text.slice(settled), this.isFinal));
    this.drawn = text.length;
  }
}

class ThinkingView {
  constructor(turn, part) {
    this.part = part;
    this.text = element("p", "");
    this.root = element("details", "thinking", element("summary", "", "Thinking"), this.text);
  }
  update() { this.text.textContent = this.part.text; }
}

class ToolView {
  constructor(turn, part) {
    this.turn = turn; this.part = part;
    this.brief = element("span", "brief");
    this.how = element("span", "how");
    const dot = element("span", "dot");
    dot.setAttribute("aria-hidden", "true");
    this.args = element("pre", ""); this.result = element("pre", "");
    this.resultTitle = element("h3", "", "Result");
    // Inside a summary, a click would also open the details.
    this.stop = button("Stop", "stop small", (event) => { event?.preventDefault(); stopCall(turn, part); });
    this.stop.setAttribute("aria-label", `Stop only ${part.name}`);
    this.root = element("details", "tool", element("summary", "", dot, element("span", "name", exact(part.name)), this.brief, this.how, this.stop),
      element("div", "inside", element("h3", "", "Arguments"), this.args, this.resultTitle, this.result));
  }
  update() {
    const { part } = this;
    const look = { running: "running", done: "done", waiting: "waiting", unknown: "waiting", writing: "" }[part.how] ?? "bad";
    this.root.className = "tool " + look;
    this.brief.textContent = exact(brief(part.args));
    const label = { writing: "called", waiting: "waiting", running: "running" }[part.how] || OUTCOMES[part.how] || part.how;
    this.how.textContent = part.note ? `${label}, ${visible(part.note)}` : label;
    // A run in a store is stopped as a whole: another process may have it.
    const { data } = this.turn;
    this.stop.hidden = part.how !== "running" || !data.live || data.isStored || data.stopping;
    this.stop.disabled = Boolean(part.stopping);
    if (this.shown !== part.args) showArguments(this.args, (this.shown = part.args));
    this.result.textContent = visible(part.result);
    this.resultTitle.hidden = this.result.hidden = !part.result;
  }
}

// Stop one call; the run goes on, and its event says how the call ended.
async function stopCall(turn, part) {
  part.stopping = true;
  turn.draw(part);
  announce(`Stopping ${part.name}`);
  try {
    const path = pathOf(turn.data.id, `/calls/${encodeURIComponent(part.call_id)}/cancel`);
    const response = await untilFound(() => send(path, { reason: "the Stop button" }));
    if (response.status !== 202 && response.status !== 409) announce(await errorOf(response));
  } catch { announce("The server could not be reached."); }
  part.stopping = false;
  turn.draw(part);
}

const VIEWS = { text: TextView, thinking: ThinkingView, tool: ToolView, ask: AskView };
