"use strict";
// A chat with runs that stop. No library, no build step, nothing from elsewhere.
// Text of models, tools and servers is never inserted as markup.

(() => {
  const $ = (id) => document.getElementById(id);
  const STORE = "syncagent:" + location.pathname;
  const MAX_TURNS = 60; // kept for a reload
  const RECONNECT_DELAYS = [500, 1000, 2000, 4000, 8000]; // in milliseconds
  const MAX_TRIES = 12; // to find the server process that has a run
  const STOP_TIME = 1000; // milliseconds for the answer to a Stop
  const ANSWER_TIME = 3000; // and for that to an answer
  const END_TIME = 10000; // and to learn how a run ended
  const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content || "";

  // -- talking to the server ---------------------------------------------------------

  // Without the cache, which also makes requests for the same URL wait for each other.
  const request = (path, options = {}) => fetch(path, { credentials: "same-origin", cache: "no-store", ...options });

  function send(path, body, accept = "application/json", options = {}) {
    const headers = { "Content-Type": "application/json", Accept: accept };
    if (meta("csrf-header") && meta("csrf-token")) headers[meta("csrf-header")] = meta("csrf-token");
    return request(path, { method: "POST", headers, body: JSON.stringify(body), ...options });
  }

  async function errorIn(response) {
    try {
      return (await response.clone().json()).error || {};
    } catch { return {}; /* not from syncagent: a proxy, perhaps */ }
  }
  const errorOf = async (response) => (await errorIn(response)).message || `The server responded with ${response.status}.`;

  // Without a store a run lives in one process of the server. A process that does not have it
  // closes the connection, so that the next try may reach another one.
  async function untilFound(ask) {
    for (let tries = 1; ; tries++) {
      const response = await ask();
      if (response.status !== 404 || tries >= MAX_TRIES || (await errorIn(response)).code !== "not_here") return response;
      await pause(10 * tries);
    }
  }

  const pathOf = (id, action = "") => "runs/" + encodeURIComponent(id) + action;

  // Yield [name, data, id] of each event of a stream.
  async function* eventsOf(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        const lines = (rest + value).split("\n\n");
        rest = lines.pop();
        for (const each of lines) {
          const fields = {};
          for (const line of each.split("\n")) {
            const at = line.indexOf(": ");
            if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
          }
          if (fields.event) yield [fields.event, parse(fields.event, fields.data), fields.id ? Number(fields.id) : 0];
        }
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  const newName = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (n) => n.toString(16).padStart(2, "0")).join("");

  // -- text that shows what it is ----------------------------------------------------

  // JSON.parse() rounds numbers. What tools report keeps those it would round, as marked strings.
  const MARK = newName();
  const NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  const isExact = (token) => token[0] === '"' || String(Number(token)) === token;
  const parse = (name, data) => JSON.parse(name.startsWith("tool_") ? data.replace(NUMBER, (token) => (isExact(token) ? token : `"${MARK}${token}"`)) : data);
  const pretty = (value) => JSON.stringify(value, null, 2).replace(new RegExp(`"${MARK}([^"]*)"`, "g"), "$1");

  // Characters that are not seen, or that turn the text around them, make one text look like
  // another. They are shown as JSON writes them.
  const escaped = (text) => Array.from({ length: text.length }, (_, n) => "\\u" + text.charCodeAt(n).toString(16).padStart(4, "0")).join("");
  // All of them, for the arguments and the names of tools.
  const exact = (text) => String(text).replace(/(?![\n\t ])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/gu, escaped);
  // For prose: emoji, and scripts that need joiners, are kept together.
  const PROSE = new RegExp([
    String.raw`((?:\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]*\u200d?)+(?<!\u200d)`,
    String.raw`[0-9#*]\ufe0f\u20e3`,
    String.raw`(?<=[\u0600-\u109f\u1780-\u18af])[\u200c\u200d](?=[\u0600-\u109f\u1780-\u18af])`,
    String.raw`\r\n|[\n\t])`,
    String.raw`(?!\p{Zs})[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]`,
  ].join("|"), "gu");
  const visible = (text) => String(text).replace(PROSE, (each, kept) => kept ?? escaped(each));

  // -- labels ------------------------------------------------------------------------

  const STATES = {
    idle: "Idle", queued: "Waiting for a free worker", running: "Working", processing: "The model is working", waiting_for_approval: "Waiting for your approval",
    waiting_for_auth: "Waiting for credentials", waiting_for_input: "Waiting for your answer",
    executing_tool: "Running", waiting_for_agent: "Waiting for another agent", done: "Done", failed: "Failed",
  };
  const ORIGINS = {
    user: "You stopped this", disconnect: "Stopped because no page was open", deadline: "Stopped because it took too long",
    shutdown: "Stopped because the server is shutting down", limit: "Stopped at a limit", signal: "Stopped by the server",
    parent: "Stopped with the run that started it", remote: "Stopped by an operator", closed: "Stopped",
  };
  const PHASES = {
    stream: "while it was writing", tool: "while a tool was running", approval: "while waiting for your approval", auth: "while waiting for credentials",
    input: "while waiting for your answer", retry: "while waiting to retry", agent: "while another agent was working", headers: "before the first word", "first event": "before the first word",
  };
  const STOPS = { limit: "A limit was reached.", max_tokens: "The response was too long and is cut off.", refusal: "The model refused the request.", other: "The provider ended the response irregularly." };
  const OUTCOMES = { done: "done", failed: "failed", denied: "denied", not_started: "not started", interrupted: "stopped", abandoned: "left running", unknown: "unknown" };
  const stateText = (state, tool) => (state === "executing_tool" && tool ? `Running ${exact(tool)}` : (STATES[state] || state) + (tool && state.startsWith("waiting") ? `: ${exact(tool)}` : ""));
  const isWaiting = (state) => /^waiting_for_(approval|auth|input)$/.test(state);
  const ago = (seconds) => (seconds < 1 ? Math.round(seconds * 1000) + " ms" : seconds < 90 ? (seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)) + " s" : Math.round(seconds / 60) + " min");

  function element(tag, className, ...inside) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...inside); // strings become text
    return made;
  }

  function button(label, className, onclick) {
    const made = element("button", className, label);
    made.type = "button";
    made.addEventListener("click", onclick);
    return made;
  }

  // The text of arguments. Each string is set apart, so that none changes the order of its neighbours.
  function showArguments(root, text) {
    root.dir = "ltr";
    root.replaceChildren(...exact(text).split(/("(?:[^"\\]|\\.)*")/).filter(Boolean).map((part) => (part[0] === '"' ? element("bdi", "", part) : part)));
  }
  const brief = (text) => text.slice(0, 300).replace(/\s*\n\s*/g, " ").replace(/^\{ ?| ?\}$/g, "");
  const textOf = (blocks) => (blocks || []).map((b) => b.text ?? (b.type === "json" ? pretty(b.value) : `[${b.type}]`)).join("\n");

  // -- streamed text -----------------------------------------------------------------

  // Return where the last block of `text` starts, which may still change; never inside a fence.
  function settledAt(text, from) {
    let at = from, settled = from, fenced = false;
    for (;;) {
      const end = text.indexOf("\n", at);
      if (end < 0) return settled;
      const line = text.slice(at, end);
      if (line.startsWith("```")) { fenced = !fenced; if (!fenced) settled = end + 1; }
      else if (!fenced && line.trim() === "") settled = end + 1;
      at = end + 1;
    }
  }

  // Render `code` and **strong**; everything else stays plain text.
  function inline(text) {
    return text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/).filter(Boolean).map((part) => {
      if (part.length > 2 && part.startsWith("`") && part.endsWith("`")) return element("code", "", part.slice(1, -1));
      if (part.length > 4 && part.startsWith("**") && part.endsWith("**")) return element("strong", "", part.slice(2, -2));
      return part;
    });
  }

  function blocks(text) {
    const made = [];
    for (const [index, part] of text.split(/^```/m).entries()) {
      if (index % 2) made.push(element("pre", "", part.slice(part.indexOf("\n") + 1 || part.length).replace(/\n$/, "")));
      else for (const each of part.split(/\n\s*\n/)) if (each.trim()) made.push(element("p", "", ...inline(each.replace(/^\n+|\s+$/g, ""))));
    }
    return made;
  }

  // -- one prompt and its run --------------------------------------------------------

  // The data of a turn is plain JSON, so that a reload can resume it.
  class Turn {
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
      this.root.append(element("p", "asked", this.data.prompt), this.body, this.working, this.foot);
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
        note.append(button("Ask again", "quiet small", () => submit(this.data.prompt)));
        this.foot.append(note);
      } else if (STOPS[end.stop_reason]) this.foot.append(element("p", "note", STOPS[end.stop_reason]));
      const facts = [];
      if (end.seconds != null) facts.push(ago(end.seconds));
      if (end.tokens) facts.push(`${end.tokens} tokens`);
      if (end.cost) facts.push(`$${end.cost.toFixed(4)}`);
      const line = element("p", "note", ...(facts.length ? [facts.join(" · ")] : []));
      if (id && !this.data.isStored) line.append(button("Timeline", "quiet small", () => showTimeline(id, this.data.prompt)));
      this.foot.append(line);
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
      const tokens = view.usage ? (view.usage.input_tokens || 0) + (view.usage.output_tokens || 0) : 0;
      now.end = { stop_reason: view.stop_reason, cancellation: view.cancellation, error: view.error, seconds, tokens, cost: view.cost };
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
    interrupt_raised(turn, data) { for (const interrupt of data.interrupts) turn.ask(interrupt); turn.keep(); },
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
      this.tail = element("div", "tail");
      this.root.replaceChildren(this.tail);
    }
    update() {
      const { data } = this.turn;
      const isLast = data.parts.at(-1) === this.part;
      this.root.classList.toggle("writing", data.live && isLast && data.state === "processing");
      this.root.classList.toggle("cut", isLast && Boolean(data.end && (data.end.cancellation || data.end.error)));
      if (this.drawn === this.part.text.length) return;
      if (!data.live) { this.drawText(); return; } // the final text, at once
      if (this.waiting) return;
      this.waiting = true; // at most once per frame
      requestAnimationFrame(() => { this.waiting = false; if (this.drawn !== this.part.text.length) this.drawText(); stick(); });
    }
    drawText() {
      const { text } = this.part;
      const settled = settledAt(text, this.settled);
      if (settled > this.settled) this.tail.before(...blocks(text.slice(this.settled, settled)));
      this.settled = settled;
      this.tail.replaceChildren(...blocks(text.slice(settled)));
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
      this.part = part;
      this.brief = element("span", "brief");
      this.how = element("span", "how");
      const dot = element("span", "dot");
      dot.setAttribute("aria-hidden", "true");
      this.args = element("pre", ""); this.result = element("pre", "");
      this.resultTitle = element("h3", "", "Result");
      this.root = element("details", "tool", element("summary", "", dot, element("span", "name", exact(part.name)), this.brief, this.how),
        element("div", "inside", element("h3", "", "Arguments"), this.args, this.resultTitle, this.result));
    }
    update() {
      const { part } = this;
      const look = { running: "running", done: "done", waiting: "waiting", unknown: "waiting", writing: "" }[part.how] ?? "bad";
      this.root.className = "tool " + look;
      this.brief.textContent = exact(brief(part.args));
      const label = { writing: "called", waiting: "waiting", running: "running" }[part.how] || OUTCOMES[part.how] || part.how;
      this.how.textContent = part.note ? `${label}, ${visible(part.note)}` : label;
      if (this.shown !== part.args) showArguments(this.args, (this.shown = part.args));
      this.result.textContent = visible(part.result);
      this.resultTitle.hidden = this.result.hidden = !part.result;
    }
  }

  // An approval, a tool's question, or a request for credentials.
  class AskView {
    constructor(turn, part) {
      this.turn = turn; this.part = part;
      this.root = element("section", "ask");
      this.root.setAttribute("aria-label", "Question");
      this.root.tabIndex = -1;
      this.isOpen = null;
    }
    update() {
      const isOpen = !this.part.answer;
      if (!isOpen) { this.root.className = "ask over"; this.root.replaceChildren(element("p", "", this.part.answer)); }
      else if (this.isOpen === null) this.root.append(...this.inside());
      this.isOpen = isOpen;
    }
    inside() {
      const { interrupt } = this.part;
      this.error = element("p", "wrong"); this.error.hidden = true;
      this.error.setAttribute("role", "alert");
      if (interrupt.type === "approval") return this.approval(interrupt);
      const isSecret = interrupt.type === "auth";
      const question = isSecret ? `${exact(interrupt.tool)} needs credentials for ${exact(interrupt.provider)}.` : visible(interrupt.question) || `${exact(interrupt.tool)} has a question.`;
      const field = element("input", "");
      field.type = isSecret ? "password" : "text";
      field.autocomplete = "off";
      const label = element("label", "field", isSecret ? "Credentials" : "Your answer", field);
      const answer = () => this.answer(isSecret ? { credentials: field.value } : { text: field.value }, isSecret ? "You provided credentials." : `You answered: ${visible(field.value)}`);
      field.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); answer(); } });
      const row = element("div", "row", button("Answer", "yes", answer), button("Decline", "quiet", () => this.answer({ allow: false }, "You declined.")));
      return [element("p", "question", question), label, row, this.error];
    }
    approval(interrupt) {
      const name = exact(interrupt.tool);
      const parts = [element("p", "question", "Allow ", element("code", "", name), "?")];
      if (interrupt.reason) parts.push(element("p", "", visible(interrupt.reason)));
      const text = exact(interrupt.arguments_text); // still JSON, of the same arguments
      const shown = element("pre", "");
      showArguments(shown, text);
      const edit = element("textarea", ""); edit.value = text; edit.rows = Math.min(12, text.split("\n").length + 1); edit.spellcheck = false; edit.dir = "ltr";
      const field = element("label", "field", "Arguments (JSON)", edit); field.hidden = true;
      const remember = element("input", ""); remember.type = "checkbox";
      const change = button("Edit", "quiet", () => { field.hidden = !field.hidden; shown.hidden = !field.hidden; change.textContent = field.hidden ? "Edit" : "Discard edits"; if (field.hidden) edit.value = text; else edit.focus(); });
      change.hidden = !interrupt.may_change_arguments;
      const later = () => (remember.checked ? " and all later calls" : "");
      const yes = () => {
        const answer = { allow: true };
        if (!field.hidden && edit.value !== text) answer.arguments_text = edit.value; // the server parses it
        if (remember.checked) answer.remember = "tool";
        return this.answer(answer, `You allowed ${name}${"arguments_text" in answer ? " with edited arguments" : ""}${later()}.`);
      };
      const no = () => this.answer({ allow: false, ...(remember.checked ? { remember: "tool" } : {}) }, `You denied ${name}${later()}.`);
      const row = element("div", "row", button("Allow", "yes", yes), button("Deny", "no", no), change, element("label", "check", remember, "Don't ask again for this tool"));
      return [...parts, shown, field, row, this.error];
    }
    complain(message) { this.error.textContent = visible(message); this.error.hidden = false; return null; }
    async answer(answer, label) {
      for (const each of this.root.querySelectorAll("button")) each.disabled = true;
      this.part.sent = label; // events of the run may be faster than the response
      try {
        const { turn } = this;
        const ask = () => untilFound(() => send(pathOf(turn.data.id, "/answers"), { answers: { [this.part.id]: answer } }));
        // A process with a single thread takes no answer while it serves the stream, which reconnects.
        const timer = setTimeout(() => turn.stream?.abort(), ANSWER_TIME);
        let response = await ask().finally(() => clearTimeout(timer));
        if (response.status === 404) { turn.stream?.abort(); response = await ask(); }
        const said = response.ok || response.status === 409 || response.status === 422 ? await response.clone().json() : {};
        const status = said.answers?.[this.part.id];
        if (status === "taken") return this.close(label);
        if (status === "over") return this.close("Already answered, or no longer needed.");
        const isElsewhere = response.status === 404 ? " The question is still open: answer again to try once more." : "";
        this.complain(status === "refused" ? said.messages?.[this.part.id] || "This is not a valid answer." : (await errorOf(response)) + isElsewhere);
      } catch { this.complain("The server could not be reached."); }
      this.part.sent = "";
      for (const each of this.root.querySelectorAll("button")) each.disabled = false;
      return null;
    }
    close(label) {
      const hadFocus = this.root.contains(document.activeElement);
      this.part.answer = label;
      this.update();
      if (hadFocus) $("prompt").focus();
      changed();
    }
  }

  const VIEWS = { text: TextView, thinking: ThinkingView, tool: ToolView, ask: AskView };

  // -- the conversation --------------------------------------------------------------

  let conversation = "";
  let turns = [];
  let saving = 0;
  const current = () => turns.find((turn) => turn.data.live);

  function save() {
    clearTimeout(saving); saving = 0;
    const data = turns.slice(-MAX_TURNS).map((turn) => turn.data);
    try { sessionStorage.setItem(STORE, JSON.stringify({ conversation, turns: data })); } catch { /* the storage is full: a reload shows less */ }
  }
  function changed() { if (!saving) saving = setTimeout(save, 250); }

  function restore() {
    try {
      const kept = JSON.parse(sessionStorage.getItem(STORE) || "{}");
      conversation = kept.conversation || newName();
      for (const data of kept.turns || []) show(new Turn(data));
    } catch { conversation = newName(); turns = []; $("log").replaceChildren(); }
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
  function stick(always = false) {
    if (always) isAtEnd = true;
    if (isAtEnd) scroll.scrollTop = scroll.scrollHeight;
    $("newest").hidden = isAtEnd;
  }
  scroll.addEventListener("scroll", () => {
    isAtEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
    $("newest").hidden = isAtEnd;
  }, { passive: true });
  new ResizeObserver(() => stick()).observe(scroll);
  $("newest").addEventListener("click", () => stick(true));

  function announce(message) { $("status").textContent = message; }

  function refresh() {
    const turn = current();
    $("stop").hidden = !turn;
    $("send").hidden = Boolean(turn);
    $("stop").disabled = Boolean(turn && turn.data.stopping);
    document.title = (turn ? (isWaiting(turn.data.state) ? "? " : "● ") : "") + document.querySelector("h1").textContent;
  }

  async function submit(prompt) {
    if (!prompt.trim() || current()) return;
    const turn = show(new Turn({ prompt }));
    announce("Sent. Press Esc to stop.");
    refresh();
    save();
    let message = "The server could not be reached.";
    turn.stream = new AbortController();
    try {
      const response = await send("runs", { prompt, conversation }, "text/event-stream", { signal: turn.stream.signal });
      if (response.ok) { await follow(turn, response); return; }
      message = await errorOf(response);
    } catch {
      await pause(300); // if the page is being left, the reload resumes the run
      if (turn.data.stopping) message = "Stopped before the server responded. Whether a run started is not known.";
    }
    fail(turn, message);
  }

  // End a turn without knowing how its run ended.
  function fail(turn, message) {
    turn.finish({ error: { message } }, false);
    announce(message);
    refresh();
    save();
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
    } catch { /* the next poll may succeed */ }
    clearTimeout(polling);
    if (!document.hidden) polling = setTimeout(listRuns, current() ? 1500 : 4000);
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
      row.button.hidden = !run.is_live && run.is_stored; // a store keeps no recording
      row.root.append(row.button);
    }
    const seconds = Math.max(0, (run.ended_at || Date.now() / 1000) - run.started_at);
    const label = run.is_live ? stateText(run.state, run.tool) : run.error ? "Failed" : run.cancellation ? "Stopped" : "Done";
    row.state.textContent = run.isUnknown ? "Unknown" : `${label}, ${ago(seconds)}`;
    row.state.className = "state" + (run.is_live && isWaiting(run.state) ? " waits" : !run.is_live && label !== "Done" ? " stopped" : "");
    return row;
  }

  function showTimeline(id, title) {
    const path = pathOf(id, "/timeline");
    $("timeline-title").textContent = title.length > 60 ? title.slice(0, 60) + "…" : title;
    $("timeline-link").href = path;
    $("timeline-frame").src = path;
    $("timeline").showModal();
  }

  // -- keys and buttons --------------------------------------------------------------

  const prompt = $("prompt");
  function fit() { prompt.style.height = "auto"; prompt.style.height = prompt.scrollHeight + "px"; }
  function askPrompt() {
    const text = prompt.value;
    if (!text.trim() || current()) return;
    prompt.value = "";
    fit();
    submit(text);
  }
  prompt.addEventListener("input", fit);
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); askPrompt(); }
  });
  $("composer").addEventListener("submit", (event) => { event.preventDefault(); askPrompt(); });
  $("stop").addEventListener("click", () => { stop(current()); prompt.focus(); });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing || $("timeline").open) return;
    if (event.target.matches(".ask input, .ask textarea")) return; // Esc belongs to the field
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
    if (current()) { announce("Stop the current run first, or wait for it to finish."); return; }
    turns = [];
    $("log").replaceChildren();
    $("welcome").hidden = false;
    conversation = newName();
    save();
    announce("New chat started.");
    prompt.focus();
  });
  addEventListener("pagehide", save);
  document.addEventListener("visibilitychange", () => { if (document.hidden) save(); else listRuns(); });

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

  restore();
  for (const turn of turns.filter((each) => each.data.live)) resume(turn);
  refresh();
  fit();
  listRuns();
  // On a phone the keyboard would hide the page.
  if (matchMedia("(min-width: 60rem)").matches) prompt.focus();
})();
