"use strict";
// A chat with runs that stop. No library, no build step, nothing from elsewhere.
// Whatever a model, a tool or a server has said becomes text, never markup.

(() => {
  const $ = (id) => document.getElementById(id);
  const STORE = "syncagent:" + location.pathname;
  const MOST_TURNS = 60; // kept for a reload
  const WAITS = [500, 1000, 2000, 4000, 8000]; // between attempts to come back
  const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content || "";

  // -- talking to the server ---------------------------------------------------------

  // Not from a cache, which would also let one request for an address wait for another.
  const ask = (path, more = {}) => fetch(path, { credentials: "same-origin", cache: "no-store", ...more });

  function send(path, body, accept = "application/json") {
    const headers = { "Content-Type": "application/json", Accept: accept };
    if (meta("csrf-header") && meta("csrf-token")) headers[meta("csrf-header")] = meta("csrf-token");
    return ask(path, { method: "POST", headers, body: JSON.stringify(body) });
  }

  async function refusalOf(response) {
    try {
      const said = await response.json();
      if (said.error) return said.error.message;
    } catch { /* no words of ours: a proxy, perhaps */ }
    return `The server answers with ${response.status}.`;
  }

  const pathOf = (id, more = "") => "runs/" + encodeURIComponent(id) + more;

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
          if (fields.event) yield [fields.event, JSON.parse(fields.data), fields.id ? Number(fields.id) : 0];
        }
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  const pause = (ms) => new Promise((done) => setTimeout(done, ms));

  // -- small words -------------------------------------------------------------------

  const STATES = {
    idle: "Idle", processing: "The model is working", waiting_for_approval: "Waits for your approval",
    waiting_for_auth: "Waits for credentials", waiting_for_input: "Waits for your answer",
    executing_tool: "Runs", waiting_for_agent: "Waits for another agent", done: "Done", failed: "Failed",
  };
  const ORIGINS = {
    user: "You stopped this", disconnect: "Stopped, as nobody was watching", deadline: "Stopped, as it took too long",
    shutdown: "Stopped, as the server ends", limit: "Stopped at a limit", signal: "Stopped by the server",
    parent: "Stopped with what had begun it", remote: "Stopped from elsewhere", closed: "Stopped",
  };
  const PHASES = {
    stream: "while it was writing", tool: "while a tool ran", approval: "while it asked for your approval", auth: "while it asked for credentials",
    input: "while it asked you", retry: "while it waited to try again", agent: "while another agent worked", headers: "before the first word", "first event": "before the first word",
  };
  const STOPS = { limit: "It has reached a limit.", max_tokens: "The answer was too long, and is cut off.", refusal: "The model refuses to answer." };
  const OUTCOMES = { done: "done", failed: "failed", denied: "denied", not_started: "not started", interrupted: "stopped", abandoned: "left behind" };
  const stateWords = (state, tool) => (state === "executing_tool" && tool ? `Runs ${tool}` : (STATES[state] || state) + (tool && state.startsWith("waiting") ? `: ${tool}` : ""));
  const isWaiting = (state) => /^waiting_for_(approval|auth|input)$/.test(state);
  const ago = (seconds) => (seconds < 1 ? Math.round(seconds * 1000) + " ms" : seconds < 90 ? (seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)) + " s" : Math.round(seconds / 60) + " min");

  function element(tag, className, ...inside) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...inside); // strings become text
    return made;
  }

  function button(words, className, onclick) {
    const made = element("button", className, words);
    made.type = "button";
    made.addEventListener("click", onclick);
    return made;
  }

  const pretty = (value) => {
    try { return JSON.stringify(typeof value === "string" ? JSON.parse(value || "{}") : value, null, 2); } catch { return String(value); }
  };
  const brief = (value) => {
    try {
      const parsed = typeof value === "string" ? JSON.parse(value || "{}") : value || {};
      return Object.entries(parsed).map(([key, each]) => `${key}: ${typeof each === "string" ? each : JSON.stringify(each)}`).join(", ");
    } catch { return String(value); }
  };
  const wordsOf = (blocks) => (blocks || []).map((b) => b.text ?? (b.type === "json" ? pretty(b.value) : `[${b.type}]`)).join("\n");

  // -- text that is still being written ----------------------------------------------

  // Where the last block of `text` begins that may still change; never inside a fence.
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

  // `code` and **strong**, and the rest as it is.
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

  // -- one question and what comes of it ---------------------------------------------

  // What is kept of a turn is plain data, so that a reload can go on with it.
  class Turn {
    constructor(data) {
      this.known = 0;
      this.open = new Set();
      this.data = { prompt: "", id: "", last: 0, live: true, parts: [], turn: 0, lagged: false, end: null, state: "", tool: "", ...data };
      this.shown = new Map(); // part -> what draws it
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

    // What an event of the run means for what is shown.
    hear(name, data, id) {
      const now = this.data;
      if (id) now.last = id;
      const handler = HEARD[name];
      if (handler) handler(this, data);
      changed();
    }

    // Is what is told now older than what is known of how the run stands?
    get isOld() { return this.data.last <= this.known; }

    add(part) { this.data.parts.push(part); this.draw(part); return part; }
    part(kind, key, value) { return this.data.parts.find((p) => p.kind === kind && p[key] === value); }

    say(kind, text) {
      let last = this.data.parts.at(-1);
      if (!last || last.kind !== kind) last = this.add({ kind, text: "" });
      last.text += text;
      this.draw(last);
    }

    tool(call_id, name) {
      return this.part("tool", "call_id", call_id) || this.add({ kind: "tool", call_id, name, args: "", how: "writing", note: "", result: "" });
    }

    ask(interrupt) {
      if (interrupt.type === "after_tools" || this.part("ask", "id", interrupt.id)) return;
      const part = this.add({ kind: "ask", id: interrupt.id, call_id: interrupt.call_id, asked: interrupt, answer: "" });
      if (interrupt.call_id) { const tool = this.tool(interrupt.call_id, interrupt.tool); tool.how = "waiting"; this.draw(tool); }
      announce(isWaiting(this.data.state) ? stateWords(this.data.state, interrupt.tool) : "You are asked something");
      const root = this.shown.get(part).root;
      const isFree = document.activeElement === $("prompt") ? !$("prompt").value : document.activeElement === document.body;
      // Whoever types is not interrupted, and no key approves by mistake.
      if (isFree) (root.querySelector("input:not([type=checkbox])") || root).focus({ preventScroll: true });
    }

    close(test, words) {
      for (const part of this.data.parts) {
        if (part.kind === "ask" && !part.answer && test(part)) { part.answer = words; this.draw(part); }
      }
    }

    draw(part) {
      let view = this.shown.get(part);
      if (!view) {
        view = new VIEWS[part.kind](this, part);
        this.shown.set(part, view);
        this.body.append(view.root);
      }
      view.update();
      stick();
    }

    drawState() {
      const { live, state, tool, parts } = this.data;
      const last = parts.at(-1);
      this.working.hidden = !live || (last?.kind === "text" && state === "processing") || isWaiting(state);
      this.working.textContent = this.note || (this.stopping ? "Stopping" : state ? stateWords(state, tool) : "Sending");
      this.root.toggleAttribute("aria-busy", live);
      for (const [part, view] of this.shown) if (part.kind === "text") view.update();
    }

    drawEnd() {
      const { end, id } = this.data;
      this.foot.replaceChildren();
      if (!end) return;
      if (end.cancellation) {
        const { origin, phase, latency, reason } = end.cancellation;
        const how = element("b", "", ORIGINS[origin] || "Stopped");
        const where = PHASES[phase] || `at “${phase}”`;
        const note = element("p", "note stopped", how, `${where}. It took ${ago(latency)}.`);
        if (reason && origin === "remote") note.append(element("span", "", reason)); // else it would stick to the rest
        this.foot.append(note);
      }
      if (end.error) {
        const note = element("p", "note error", end.error.message);
        note.append(button("Ask again", "quiet small", () => submit(this.data.prompt)));
        this.foot.append(note);
      } else if (STOPS[end.stop_reason]) this.foot.append(element("p", "note", STOPS[end.stop_reason]));
      const facts = [];
      if (end.seconds != null) facts.push(ago(end.seconds));
      if (end.tokens) facts.push(`${end.tokens} tokens`);
      if (end.cost) facts.push(`$${end.cost.toFixed(4)}`);
      const line = element("p", "note", ...(facts.length ? [facts.join(" · ")] : []));
      if (id) line.append(button("Timeline", "quiet small", () => showTimeline(id, this.data.prompt)));
      this.foot.append(line);
    }

    finish(view) {
      const now = this.data;
      now.live = false;
      this.stopping = false;
      this.note = "";
      this.close(() => true, "This is over.");
      for (const part of now.parts) {
        if (part.kind === "tool" && ["writing", "waiting", "running"].includes(part.how)) {
          const outcome = (view.tool_outcomes || []).find((each) => each.call_id === part.call_id);
          part.how = outcome ? outcome.outcome : "not_started";
          part.note = "";
          this.draw(part);
        }
      }
      const seconds = view.ended_at && view.started_at ? view.ended_at - view.started_at : null;
      const tokens = view.usage ? (view.usage.input_tokens || 0) + (view.usage.output_tokens || 0) : 0;
      now.end = { stop_reason: view.stop_reason, cancellation: view.cancellation, error: view.error, seconds, tokens, cost: view.cost };
      // What came while nobody looked, and is in no buffer any more.
      if (view.text && !now.parts.some((part) => part.kind === "text")) this.say("text", view.text);
      this.drawEnd();
      this.drawState();
    }
  }

  // What each event means; those that are not here mean nothing for this page.
  const HEARD = {
    run(turn, view) {
      turn.data.id = view.id;
      turn.data.state = view.state; turn.data.tool = view.tool;
      // How it stands now; what is told again below is older, up to this number.
      turn.known = view.events;
      turn.open = new Set(view.interrupts.map((interrupt) => interrupt.id));
      for (const interrupt of view.interrupts) turn.ask(interrupt);
      turn.drawState();
    },
    state_changed(turn, data) {
      turn.data.state = data.state; turn.data.tool = data.tool || "";
      if (!isWaiting(data.state)) turn.close((part) => !turn.isOld || !turn.open.has(part.id), "This was answered.");
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
    interrupt_raised(turn, data) { for (const interrupt of data.interrupts) turn.ask(interrupt); },
    tool_started(turn, data) {
      turn.close((part) => part.call_id === data.call_id, "This was answered.");
      const tool = turn.tool(data.call_id, data.name);
      tool.args = data.arguments || tool.args; tool.how = "running";
      turn.draw(tool);
    },
    tool_progress(turn, data) {
      const tool = turn.tool(data.call_id, data.name);
      tool.note = typeof data.value === "string" ? data.value : pretty(data.value);
      turn.draw(tool);
    },
    tool_finished(turn, data) {
      turn.close((part) => part.call_id === data.call_id, "This was answered.");
      const tool = turn.tool(data.call_id, data.name);
      tool.how = data.outcome; tool.note = ""; tool.result = wordsOf(data.result.content);
      turn.draw(tool);
    },
    lagged(turn) { turn.data.lagged = true; },
    turn_finished(turn, data) {
      if (!turn.data.lagged) return;
      turn.data.lagged = false; // the whole of it is in here
      const text = (data.message.content || []).filter((b) => b.type === "text").map((b) => b.text).join("");
      const own = turn.data.parts.slice(turn.data.turn).find((part) => part.kind === "text");
      if (own) { own.text = text; turn.shown.get(own).restart(); turn.draw(own); } else if (text) turn.say("text", text);
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
      if (!data.live) { this.drawText(); return; } // the end is shown with all there is
      if (this.waiting) return;
      this.waiting = true; // at most once for each picture
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
      this.root = element("details", "tool", element("summary", "", dot, element("span", "name", part.name), this.brief, this.how),
        element("div", "inside", element("h3", "", "Arguments"), this.args, this.resultTitle, this.result));
    }
    update() {
      const { part } = this;
      const look = { running: "running", done: "done", waiting: "waiting", writing: "" }[part.how] ?? "bad";
      this.root.className = "tool " + look;
      this.brief.textContent = brief(part.args);
      const words = { writing: "called", waiting: "waits", running: "running" }[part.how] || OUTCOMES[part.how] || part.how;
      this.how.textContent = part.note ? `${words}, ${part.note}` : words;
      this.args.textContent = pretty(part.args);
      this.result.textContent = part.result;
      this.resultTitle.hidden = this.result.hidden = !part.result;
    }
  }

  // An approval, a question of a tool, or credentials.
  class AskView {
    constructor(turn, part) {
      this.turn = turn; this.part = part;
      this.root = element("section", "ask");
      this.root.setAttribute("aria-label", "You are asked");
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
      const { asked } = this.part;
      this.wrong = element("p", "wrong"); this.wrong.hidden = true;
      this.wrong.setAttribute("role", "alert");
      if (asked.type === "approval") return this.approval(asked);
      const isSecret = asked.type === "auth";
      const words = isSecret ? `${asked.tool} needs credentials for ${asked.provider}.` : asked.question || `${asked.tool} asks you something.`;
      const field = element("input", "");
      field.type = isSecret ? "password" : "text";
      field.autocomplete = "off";
      const label = element("label", "field", isSecret ? "Credentials" : "Your answer", field);
      const give = () => this.give(isSecret ? { credentials: field.value } : { text: field.value }, isSecret ? "You gave credentials." : `You answered: ${field.value}`);
      field.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); give(); } });
      const row = element("div", "row", button("Answer", "yes", give), button("Do not answer", "quiet", () => this.give({ allow: false }, "You did not answer.")));
      return [element("p", "question", words), label, row, this.wrong];
    }
    approval(asked) {
      const parts = [element("p", "question", "May ", element("code", "", asked.tool), " be called?")];
      if (asked.reason) parts.push(element("p", "", asked.reason));
      const given = pretty(asked.arguments);
      const shown = element("pre", "", given);
      const edit = element("textarea", ""); edit.value = given; edit.rows = Math.min(12, given.split("\n").length + 1); edit.spellcheck = false;
      const field = element("label", "field", "Arguments, as JSON", edit); field.hidden = true;
      const remember = element("input", ""); remember.type = "checkbox";
      const change = button("Change", "quiet", () => { field.hidden = !field.hidden; shown.hidden = !field.hidden; change.textContent = field.hidden ? "Change" : "As it was"; if (!field.hidden) edit.focus(); });
      const yes = () => {
        const answer = { allow: true };
        if (!field.hidden) {
          try { answer.arguments = JSON.parse(edit.value); } catch { return this.complain("These arguments are no JSON."); }
        }
        if (remember.checked) answer.remember = "tool";
        return this.give(answer, `You approved ${asked.tool}${answer.arguments ? ", with other arguments" : ""}${remember.checked ? ", also for later" : ""}.`);
      };
      const no = () => this.give({ allow: false, ...(remember.checked ? { remember: "tool" } : {}) }, `You denied ${asked.tool}${remember.checked ? ", also for later" : ""}.`);
      const row = element("div", "row", button("Approve", "yes", yes), button("Deny", "no", no), change, element("label", "check", remember, "Do not ask again for this tool"));
      return [...parts, shown, field, row, this.wrong];
    }
    complain(words) { this.wrong.textContent = words; this.wrong.hidden = false; return null; }
    async give(answer, words) {
      for (const each of this.root.querySelectorAll("button")) each.disabled = true;
      try {
        const response = await send(pathOf(this.turn.data.id, "/answers"), { answers: { [this.part.id]: answer } });
        const fate = response.ok || response.status === 409 || response.status === 422 ? (await response.json()).answers?.[this.part.id] : null;
        if (fate === "taken") return this.over(words);
        if (fate === "over") return this.over("Somebody was faster, or it is over.");
        this.complain(fate === "refused" ? "That is no answer to this." : await refusalOf(response));
      } catch { this.complain("The server could not be reached."); }
      for (const each of this.root.querySelectorAll("button")) each.disabled = false;
      return null;
    }
    over(words) {
      const hadFocus = this.root.contains(document.activeElement);
      this.part.answer = words;
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
  const newName = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (n) => n.toString(16).padStart(2, "0")).join("");
  const current = () => turns.find((turn) => turn.data.live);

  function save() {
    clearTimeout(saving); saving = 0;
    const data = turns.slice(-MOST_TURNS).map((turn) => turn.data);
    try { sessionStorage.setItem(STORE, JSON.stringify({ conversation, turns: data })); } catch { /* it is full: a reload shows less */ }
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

  function announce(words) { $("status").textContent = words; }

  function refresh() {
    const turn = current();
    $("stop").hidden = !turn;
    $("send").hidden = Boolean(turn);
    $("stop").disabled = Boolean(turn && turn.stopping);
    document.title = (turn ? (isWaiting(turn.data.state) ? "? " : "● ") : "") + document.querySelector("h1").textContent;
  }

  async function submit(prompt) {
    if (!prompt.trim() || current()) return;
    const turn = show(new Turn({ prompt }));
    announce("Sent. Esc stops it.");
    refresh();
    save();
    let words = "The server could not be reached.";
    try {
      const response = await send("runs", { prompt, conversation }, "text/event-stream");
      if (response.ok) { await follow(turn, response); return; }
      words = await refusalOf(response);
    } catch {
      await pause(300); // a page that is being left goes on after the reload
    }
    fail(turn, words);
  }

  function fail(turn, words) {
    turn.finish({ error: { message: words }, tool_outcomes: [] });
    announce(words);
    refresh();
    save();
  }

  // Follow a run to its end, also if the connection breaks in between.
  async function follow(turn, response) {
    let tries = 0;
    while (turn.data.live) {
      try {
        if (!response) {
          const headers = { Accept: "text/event-stream" };
          if (turn.data.last) headers["Last-Event-ID"] = String(turn.data.last);
          response = await ask(pathOf(turn.data.id, "/events"), { headers });
        }
        if (response.status === 404) { fail(turn, "The server does not know this run any more."); return; }
        if (response.status === 204) { turn.finish(await (await ask(pathOf(turn.data.id))).json()); break; }
        if (!response.ok) throw new Error(String(response.status));
        turn.data.id = response.headers.get("X-Run-Id") || turn.data.id;
        turn.note = "";
        save(); // from here on a reload finds it
        listRuns();
        if (turn.stopWanted) stop(turn);
        for await (const [name, data, id] of eventsOf(response)) {
          tries = 0;
          turn.hear(name, data, id);
          refresh();
        }
      } catch { /* the connection broke: come back below */ }
      response = null;
      if (!turn.data.live) break;
      if (!turn.data.id || tries >= WAITS.length) { fail(turn, "The connection to the server is lost."); return; }
      if (tries) { turn.note = "The connection broke; trying again"; turn.drawState(); }
      await pause(WAITS[tries++]);
    }
    const how = turn.data.end;
    announce(how.cancellation ? ORIGINS[how.cancellation.origin] + "." : how.error ? how.error.message : "Done.");
    save();
    refresh();
    listRuns();
  }

  async function stop(turn) {
    if (!turn || !turn.data.live) return;
    turn.stopping = true;
    announce("Stopping");
    turn.drawState();
    refresh();
    if (!turn.data.id) { turn.stopWanted = true; return; } // as soon as it has a name
    turn.stopWanted = false;
    const words = await stopRun(turn.data.id);
    if (words && turn.data.live) { turn.stopping = false; announce(words); turn.drawState(); refresh(); }
  }

  // End a run; return what is wrong, if something is.
  async function stopRun(id) {
    try {
      const response = await send(pathOf(id, "/cancel"), { reason: "the Stop button" });
      return response.status === 202 || response.status === 409 ? "" : await refusalOf(response);
    } catch { return "The server could not be reached, so it is not stopped."; }
  }

  // -- all runs ----------------------------------------------------------------------

  let polling = 0;
  async function listRuns() {
    clearTimeout(polling);
    try {
      const response = await ask("runs");
      if (response.ok) drawRuns((await response.json()).runs);
    } catch { /* the next time, perhaps */ }
    clearTimeout(polling);
    if (!document.hidden) polling = setTimeout(listRuns, current() ? 1500 : 4000);
  }

  const rows = new Map(); // id -> what draws it: a row stays the same, with its focus
  function drawRuns(runs) {
    const live = runs.filter((run) => run.is_live);
    const ended = runs.filter((run) => !run.is_live).slice(0, 20);
    for (const [list, these] of [[$("live"), live], [$("finished"), ended]]) {
      these.forEach((run, place) => {
        const row = rowOf(run);
        if (list.children[place] !== row.root) list.insertBefore(row.root, list.children[place] || null);
      });
      while (list.children.length > these.length) list.lastChild.remove();
    }
    for (const id of rows.keys()) if (!runs.some((run) => run.id === id)) rows.delete(id);
    $("no-live").hidden = live.length > 0;
    $("no-finished").hidden = ended.length > 0;
    $("live-count").hidden = live.length === 0;
    $("live-count").textContent = String(live.length);
  }

  function rowOf(run) {
    let row = rows.get(run.id);
    const title = run.prompt || run.agent || run.run_id.slice(0, 8);
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
        ? button("Stop", "stop small", async () => { row.button.disabled = true; const own = turns.find((t) => t.data.id === run.id); if (own) await stop(own); else { const words = await stopRun(run.id); if (words) announce(words); } listRuns(); })
        : button("Timeline", "quiet small", () => showTimeline(run.id, title));
      row.button.setAttribute("aria-label", `${run.is_live ? "Stop" : "Timeline of"}: ${title}`);
      row.root.append(row.button);
    }
    const seconds = Math.max(0, (run.ended_at || Date.now() / 1000) - run.started_at);
    const words = run.is_live ? stateWords(run.state, run.tool) : run.error ? "Failed" : run.cancellation ? "Stopped" : "Done";
    row.state.textContent = `${words}, ${ago(seconds)}`;
    row.state.className = "state" + (run.is_live && isWaiting(run.state) ? " waits" : !run.is_live && words !== "Done" ? " stopped" : "");
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
    if (event.target.matches(".ask input, .ask textarea")) return; // it means the field
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
    if (current()) { announce("Stop what runs first, or wait for it."); return; }
    turns = [];
    $("log").replaceChildren();
    $("welcome").hidden = false;
    conversation = newName();
    save();
    announce("A new chat.");
    prompt.focus();
  });
  addEventListener("pagehide", save);
  document.addEventListener("visibilitychange", () => { if (document.hidden) save(); else listRuns(); });

  // -- begin -------------------------------------------------------------------------

  // Go on with what was live when the page was left.
  async function comeBack(turn) {
    if (!turn) return;
    announce("Going on where the page was left.");
    if (!turn.data.id) { // left before the server had answered
      try {
        const { runs } = await (await ask("runs")).json();
        turn.data.id = runs.find((run) => run.is_live && run.conversation === conversation)?.id || "";
      } catch { /* then it is not known */ }
      if (!turn.data.id) { fail(turn, "The page was left before this had begun."); return; }
    }
    follow(turn, null);
  }

  restore();
  for (const turn of turns.filter((each) => each.data.live)) comeBack(turn);
  refresh();
  fit();
  listRuns();
  // On a phone the keyboard would hide the page.
  if (matchMedia("(min-width: 60rem)").matches) prompt.focus();
})();
