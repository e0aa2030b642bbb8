"""Forms on a terminal, filled in one field after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from ..exceptions import ConfigurationError
from ..schemas.forms import Form, FormField
from .approvals import choices, parse_choice
from .plain_text import on_one_line

__all__ = ["DECLINE", "FORM_HINT", "FormEntry", "fill_in", "form_text"]

#: The line that says no to a form.
DECLINE: Final = "/decline"
FORM_HINT: Final = f"Enter takes the value in brackets; {DECLINE} says no"


class FormEntry:
    """A form that a person fills in.

    :param schema: the JSON schema of the form, which was checked when it was asked.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._form: Final = Form.of(schema)
        self._given: Final[dict[str, Any]] = {}
        self._next = 0
        #: The answer, once it is complete; false if the person said no.
        self.answer: dict[str, Any] | bool | None = None

    @property
    def prompt(self) -> str:
        """The text before the value of the next field."""
        if self._next == len(self._form.fields):  # a form without fields asks for a yes
            return choices("yes", "no")
        field = self._form.fields[self._next]
        details = "; ".join(filter(None, _details(field)))
        default = _shown(field, field.default)
        text = f"{field.title} ({details})" if details else field.title
        return on_one_line(f"{text} [{default}]" if default else text) + ": "

    @property
    def choices(self) -> tuple[str, ...]:
        """The answers to choose from for the next field, if it has some."""
        if not self._form.fields:
            return ("yes", "no")
        field = self._form.fields[self._next]
        if field.kind == "boolean":
            return ("yes", "no")
        titles = tuple(each.title for each in field.choices)
        is_typed = all(title == on_one_line(title) for title in titles)
        return titles if field.kind == "choice" and is_typed else ()

    def enter(self, text: str) -> str:
        """Take a typed line; return why it is not a value, or an empty string."""
        if text.strip() == DECLINE:
            self.answer = False
        elif not self._form.fields:
            choice = parse_choice(text)
            if choice not in ("yes", "no"):
                return "answer yes or no"
            self.answer = {} if choice == "yes" else False
        else:
            return self._enter_value(self._form.fields[self._next], text)
        return ""

    def _enter_value(self, field: FormField, text: str) -> str:
        try:
            if text.strip():
                self._given[field.name] = field.parse(text)
            elif field.is_required and field.default is msgspec.UNSET:
                return f"{field.title} is required; {DECLINE} says no to the form"
        except ConfigurationError as error:
            return str(error)
        self._next += 1
        if self._next == len(self._form.fields):
            self.answer = self._form.check(self._given)
        return ""


def fill_in(
    question: str,
    schema: dict[str, Any],
    ask: Callable[[str], str | None],
    tell: Callable[[str], object],
) -> dict[str, Any] | bool | None:
    """Ask for the fields of a form, one after the other.

    :param ask: shows a prompt, and returns the line that a person types.
    :param tell: shows a line.
    :return: the answer, false for a no, or ``None`` if *ask* returned none.
    """
    entry = FormEntry(schema)
    tell(on_one_line(question))
    tell(f"({FORM_HINT})")
    while entry.answer is None:
        line = ask(entry.prompt)
        if line is None:
            return None
        problem = entry.enter(line)
        if problem:
            tell(f"({on_one_line(problem)})")
    return entry.answer


def form_text(schema: dict[str, Any]) -> str:
    """Return the fields of a form on one line."""
    parts = []
    for field in Form.of(schema).fields:
        details = ", ".join((field.kind, *(() if field.is_required else ("optional",))))
        parts.append(f"{field.name} ({details})")
    return on_one_line(", ".join(parts)) or "yes or no"


def _details(field: FormField) -> tuple[str, ...]:
    names = ", ".join(
        f"{number} {choice.title}" for number, choice in enumerate(field.choices, 1)
    )
    kinds = {
        "boolean": "yes or no",
        "choice": names,
        "choices": f"with commas between them: {names}",
    }
    bounds = field.bounds
    if bounds and field.kind == "text":
        bounds = f"{bounds} characters"
    elif bounds and field.kind == "choices":
        bounds = f"{bounds} of them"
    is_optional = not field.is_required and field.default is msgspec.UNSET
    optional = "optional" if is_optional else ""
    return field.description, kinds.get(field.kind, ""), field.format, bounds, optional


def _shown(field: FormField, value: Any) -> str:
    """Return a value as a person would type it."""
    if value is msgspec.UNSET:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    titles = {choice.value: choice.title for choice in field.choices}
    values = value if isinstance(value, (list, tuple)) else [value]
    return ", ".join(titles.get(each, str(each)) for each in values)
