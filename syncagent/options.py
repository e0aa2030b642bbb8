"""Options of a request to a model, beside the conversation."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import msgspec

from ._checks import check_number
from .exceptions import ConfigurationError

__all__ = ["BUDGETS", "Effort", "Options", "OutputFormat", "ToolSpec"]

Effort = Literal["none", "minimal", "low", "medium", "high"]

#: Thinking tokens for each effort, for providers that count them.
BUDGETS: Final[dict[Effort, int]] = {
    "none": 0,
    "minimal": 0,
    "low": 1024,
    "medium": 8192,
    "high": 24576,
}


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model sees it."""

    name: str
    description: str = ""
    #: The JSON schema of its arguments.
    parameters: dict[str, Any] = msgspec.field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )


class OutputFormat(msgspec.Struct, frozen=True):
    """The form that the response must have."""

    #: The JSON schema.
    schema: dict[str, Any]
    name: str = "answer"
    #: True to have the provider enforce it, where it can.
    strict: bool = True


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a request; the provider decides about those that are not given.

    Each dialect translates them. An option that a dialect does not have is an error,
    and never dropped silently; ``seed``, ``metadata`` and ``cache`` are only hints.

    :raises ConfigurationError: an option is invalid.
    """

    system: str = ""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    #: A single string works, too.
    stop: tuple[str, ...] = ()
    seed: int | None = None
    #: How hard to think.
    effort: Effort | None = None
    #: The number of thinking tokens, for providers that count them.
    thinking_tokens: int | None = None
    #: ``auto``, ``none``, ``required``, or the name of a tool.
    tool_choice: str | None = None
    #: False to allow one tool call at a time.
    parallel_tool_calls: bool | None = None
    output: OutputFormat | None = None
    #: True to mark the conversation for the provider's cache, where that is necessary.
    cache: bool = False
    #: The beginning of the response.
    prefill: str = ""
    metadata: dict[str, str] = {}
    #: The provider's own fields; they take precedence over the others.
    extra: dict[str, Any] = {}

    def __post_init__(self) -> None:
        stop: Any = self.stop
        if isinstance(stop, str):
            msgspec.structs.force_setattr(self, "stop", (stop,))
        if self.effort is not None and self.effort not in get_args(Effort):
            raise ConfigurationError(
                f"effort must be one of {', '.join(get_args(Effort))}; "
                f"got {self.effort!r}"
            )
        for name in ("temperature", "top_p"):
            check_number(name, getattr(self, name), allow_none=True)
        for name in ("max_tokens", "thinking_tokens"):
            value = getattr(self, name)
            check_number(name, value, minimum=1, is_integer=True, allow_none=True)
