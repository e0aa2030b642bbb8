"""The part of the screen that is drawn again: the input, and the rows around it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Window,
)
from prompt_toolkit.layout.processors import (
    ConditionalProcessor,
    Processor,
    Transformation,
    TransformationInput,
)
from prompt_toolkit.styles import Style

from ..approvals import parse_choice
from ..plain_text import harmless
from ..rows import clip
from .screen import Controller

__all__ = ["Bottom", "PLAIN_STYLE", "STYLE"]

#: Rows of the input.
_MAX_INPUT_ROWS: Final = 10
STYLE: Final = Style.from_dict(
    {
        "status": "ansibrightblack",
        "tool": "ansicyan",
        "question": "bold ansiyellow",
        "chosen": "reverse bold ansiyellow",
        "paste": "ansicyan",
        "bar": "reverse",
        "bar.stopping": "ansired reverse",
        "bar.asking": "ansiyellow reverse",
    }
)
#: Without colours.
PLAIN_STYLE: Final = Style.from_dict({"question": "bold", "chosen": "underline"})
_TOOL: Final = re.compile(r"( +)([\w.-]+)(\(.*)")
_CHOICE: Final = re.compile(r"(\[\w\]\w+)")

_Fragments = Callable[[], StyleAndTextTuples]


class _Hidden(Processor):
    """Shows nothing of the input, not even its length."""

    def apply_transformation(self, source: TransformationInput) -> Transformation:
        return Transformation([], lambda _: 0, lambda _: 0)


class Bottom:
    """From above: the unfinished response, running tools, the input, and a bar.

    :param pastes: shows long pastes in the input.
    :param controller: returns the controller, once there is one.
    :param width: returns the columns of a row.
    :param response: returns the part of the response that has no row yet.
    """

    def __init__(
        self,
        buffer: Buffer,
        pastes: Processor,
        *,
        controller: Callable[[], Controller],
        width: Callable[[], int],
        response: Callable[[], str],
    ) -> None:
        self._buffer = buffer
        self._pastes = pastes
        self._find_controller = controller
        self._find_width = width
        self._response = response

    @property
    def _controller(self) -> Controller:
        return self._find_controller()

    def container(self) -> HSplit:
        """Return all of it, for a layout."""

        def rows(fragments: _Fragments) -> Window:
            # If there is no room, an empty window instead of an error message.
            return Window(
                FormattedTextControl(fragments),
                Dimension(min=0),
                dont_extend_height=True,
            )

        def optional(fragments: _Fragments) -> ConditionalContainer:
            return ConditionalContainer(
                rows(fragments), Condition(lambda: bool(fragments()))
            )

        def response() -> StyleAndTextTuples:
            text = self._response()
            return to_formatted_text(ANSI(text)) if text else []

        is_secret = Condition(lambda: self._controller.is_secret)
        typed = Window(
            BufferControl(
                self._buffer,
                input_processors=[
                    self._pastes,
                    ConditionalProcessor(_Hidden(), is_secret),
                ],
            ),
            height=Dimension(min=1, max=_MAX_INPUT_ROWS),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=self.line_prefix,
        )
        return HSplit(
            [optional(response), optional(self.status), typed, rows(self.bar)]
        )

    def status(self) -> StyleAndTextTuples:
        """Return lines about running tools and queued input."""
        fragments: StyleAndTextTuples = []
        for line in self._controller.status():
            text = clip(harmless(line), self._find_width())
            fragments.append(("", "\n" if fragments else ""))
            if match := _TOOL.match(text):
                fragments += [("", match[1]), ("class:tool", match[2])]
                text = match[3]
            fragments.append(("class:status", text))
        return fragments

    def bar(self) -> StyleAndTextTuples:
        """Return the last row, with the state of the chat."""
        width = self._find_width()
        summary = harmless(self._controller.summary())
        text = clip(f" {summary} ", width).ljust(width)
        kind = ".asking" if self._controller.is_asking else ""
        kind = ".stopping" if self._controller.is_stopping else kind
        return [(f"class:bar{kind}", text)]

    def line_prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        """Return the text before a line of the input."""
        if wrapped:
            return []
        prompt = self._controller.prompt
        if line or not self._controller.is_asking:
            return [("", "  " if line else prompt)]
        chosen = parse_choice(self._buffer.text) if self._controller.choices else None
        return [
            (
                "class:chosen"
                if chosen and part[1:2] == chosen[0]
                else "class:question",
                part,
            )
            for part in _CHOICE.split(prompt)
            if part
        ]

    @property
    def can_choose(self) -> bool:
        """True if the arrow keys choose an answer: nothing else is typed."""
        choices = self._controller.choices
        return bool(choices) and self._buffer.text in ("", *choices)

    def choose(self, step: int) -> None:
        """Put the next answer into the input; Enter sends it."""
        choices = self._controller.choices
        if self._buffer.text in choices:
            place = choices.index(self._buffer.text) + step
        else:
            place = 0 if step > 0 else -1
        self._buffer.reset()
        self._buffer.insert_text(choices[place % len(choices)])
