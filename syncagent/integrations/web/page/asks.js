// A question to a person, and the answer.

import { changed } from "./page.js";
import { fieldsOf, valuesOf } from "./forms.js";
import { errorOf, pathOf, send, untilFound } from "./server.js";
import { $, button, element, exact, showArguments, visible } from "./text.js";

const ANSWER_TIME = 3000; // milliseconds for the response to an answer

// An approval, a tool's question, or a request for credentials.
export class AskView {
  constructor(turn, part) {
    this.turn = turn; this.part = part;
    this.root = element("section", "ask");
    this.root.setAttribute("aria-label", "Question");
    this.root.tabIndex = -1;
    this.look = "";
  }
  update() {
    const { answer, approver } = this.part;
    const look = answer ? "over" : approver ? "elsewhere" : "open";
    if (look === "over") this.root.replaceChildren(element("p", "", answer));
    else if (look !== this.look) this.root.replaceChildren(...(approver ? this.elsewhere() : this.inside()));
    this.root.className = look === "over" ? "ask over" : "ask";
    this.look = look;
  }
  // A question that the owner of the run must not answer.
  elsewhere() {
    const { interrupt, approver } = this.part;
    const shown = element("pre", "");
    if (interrupt.arguments_text) showArguments(shown, exact(interrupt.arguments_text));
    else shown.textContent = visible(interrupt.question || "");
    return [element("p", "question", element("code", "", exact(interrupt.tool || "")), ` needs an answer from ${visible(approver)}.`), shown];
  }
  inside() {
    const { interrupt } = this.part;
    this.error = element("p", "wrong"); this.error.hidden = true;
    this.error.setAttribute("role", "alert");
    if (interrupt.type === "approval") return this.approval(interrupt);
    if (interrupt.form) return this.form(interrupt);
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
  form(interrupt) {
    const fields = fieldsOf(interrupt.form);
    const submit = () => {
      try { return this.answer({ values: valuesOf(fields) }, "You submitted the form."); } catch (error) { return this.complain(error.message); }
    };
    const parts = fields.map((field) => field.root);
    for (const { input } of fields) input.addEventListener("keydown", (event) => { if (event.key === "Enter" && input.tagName === "INPUT" && !event.isComposing) { event.preventDefault(); submit(); } });
    const row = element("div", "row", button("Submit", "yes", submit), button("Decline", "quiet", () => this.answer({ allow: false }, "You declined.")));
    return [element("p", "question", visible(interrupt.question)), ...parts, row, this.error];
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
    const change = button("Edit", "quiet", () => {
      field.hidden = !field.hidden; shown.hidden = !field.hidden;
      change.textContent = field.hidden ? "Edit" : "Discard edits";
      if (field.hidden) edit.value = text; else edit.focus({ preventScroll: true });
      this.root.scrollIntoView({ block: "nearest" }); // with its buttons
    });
    change.hidden = !interrupt.may_change_arguments;
    const later = () => (remember.checked ? " and all later calls" : "");
    const yes = () => {
      const answer = { allow: true };
      if (!field.hidden && edit.value !== text) answer.arguments_text = edit.value; // the server parses it
      if (remember.checked) answer.remember = "tool";
      return this.answer(answer, `You allowed ${name}${"arguments_text" in answer ? " with edited arguments" : ""}${later()}.`);
    };
    const no = () => this.answer({ allow: false, ...(remember.checked ? { remember: "tool" } : {}) }, `You denied ${name}${later()}.`);
    const row = element("div", "row", button("Allow", "yes", yes), button("Deny", "no", no), change);
    if (interrupt.may_remember !== false) row.append(element("label", "check", remember, "Don't ask again for this tool"));
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
    if (hadFocus) this.turn.takeFocus();
    this.turn.afterAnswer?.();
    changed();
  }
}
