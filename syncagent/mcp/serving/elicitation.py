"""Questions of tools and agents as forms for the client's user, and their answers."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from ...exceptions import ConfigurationError
from ...interrupts import Approval, ApprovalRequest, AwaitingInput, Interrupt
from ...schemas.forms import Form
from ...tools.results import cut

__all__ = [
    "APPROVAL",
    "Elicitation",
    "InvalidAnswer",
    "NO_USER",
    "answer_of",
    "answers_by_id",
    "elicit_approval",
    "elicit_input",
    "elicit_interrupts",
]

#: The key of the question whether a tool may be called.
APPROVAL: Final = "approval"
NO_USER: Final = (
    "the client cannot ask its user: it does not declare the capability elicitation"
)
#: Characters of a question, and of the arguments that an approval shows.
_LONGEST: Final = 4_000
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")

_TEXT_FORM: Final = {
    "type": "object",
    "properties": {"answer": {"type": "string", "title": "Answer"}},
    "required": ["answer"],
}
_YES_OR_NO: Final = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow"}},
    "required": ["allow"],
}


class InvalidAnswer(Exception):
    """The client sent something that is not an answer to the question."""


class Elicitation(msgspec.Struct, frozen=True):
    """A form for the client's user."""

    #: Its name among the questions of a round.
    key: str
    message: str
    schema: dict[str, Any]
    #: The form of the tool; without one the answer is a text.
    form: dict[str, Any] | None = None

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of ``elicitation/create``."""
        return {"message": self.message, "requestedSchema": self.schema}

    @property
    def input_request(self) -> dict[str, Any]:
        """The request of a modern round."""
        return {"method": "elicitation/create", "params": self.params}


def elicit_input(
    question: str, form: dict[str, Any] | None = None, key: str = ""
) -> Elicitation:
    """Return the form for a question of a tool.

    :param key: by default the title of the form, if it is a plain name.
    """
    title = form.get("title") if form is not None else None
    if not key:
        is_name = isinstance(title, str) and _KEY.fullmatch(title)
        key = str(title) if is_name else "question"
    schema = _TEXT_FORM
    if form is not None:
        schema = {name: value for name, value in form.items() if name != "title"}
    return Elicitation(key, cut(question, _LONGEST), schema, form)


def elicit_approval(
    tool: str, arguments: dict[str, Any], reason: str, key: str = APPROVAL
) -> Elicitation:
    """Return the form that asks whether a tool may be called."""
    shown = cut(msgspec.json.encode(arguments).decode(), _LONGEST)
    why = f" {cut(reason, _LONGEST)}" if reason else ""
    return Elicitation(key, f"Allow {tool}?{why}\nArguments: {shown}", _YES_OR_NO)


def elicit_interrupts(questions: tuple[Interrupt, ...]) -> dict[str, Elicitation]:
    """Return the forms for questions of a paused run, by their ids.

    Credentials have none: they are secrets, which no form may ask for.
    """
    forms: dict[str, Elicitation] = {}
    for number, question in enumerate(questions, 1):
        key = f"question_{number}"
        if isinstance(question, ApprovalRequest):
            forms[question.id] = elicit_approval(
                question.tool, question.arguments, question.reason, key
            )
        elif isinstance(question, AwaitingInput):
            forms[question.id] = elicit_input(question.question, question.form, key)
    return forms


def answers_by_id(
    questions: tuple[Interrupt, ...], answers: dict[str, Any]
) -> dict[str, Any]:
    """Return the answers as a run takes them; without one, a refusal."""
    given: dict[str, Any] = {}
    for question in questions:
        answer = answers.get(question.id)
        if isinstance(question, ApprovalRequest):
            answer = Approval(answer is True, reason="" if answer else "by the user")
        given[question.id] = answer
    return given


def answer_of(asked: Elicitation, response: Any) -> Any:
    """Return the answer in a response of the client.

    :return: text, or the fields of the form, or a boolean for an approval; ``None`` if
        the user gave none, and false for a no to a form.
    :raises InvalidAnswer: the response makes no sense.
    """
    action = response.get("action") if isinstance(response, dict) else None
    if action in ("decline", "cancel"):
        return False if action == "decline" and asked.form is not None else None
    content = response.get("content") if isinstance(response, dict) else None
    if action != "accept" or not isinstance(content, dict):
        raise InvalidAnswer("an answer needs an action, and content if it is accept")
    if asked.form is not None:
        try:
            return Form.of(asked.form).check(content)
        except ConfigurationError as error:
            raise InvalidAnswer(str(error)) from None
    name, kind = ("allow", bool) if asked.schema is _YES_OR_NO else ("answer", str)
    value = content.get(name)
    if not isinstance(value, kind):
        raise InvalidAnswer(f"the content of the answer needs {name!r}")
    return value
