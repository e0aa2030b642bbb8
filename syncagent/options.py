"""Options of a request to a model, beside the conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import msgspec

from ._checks import check_number
from .exceptions import ConfigurationError

__all__ = [
    "BUDGETS",
    "CodeExecution",
    "Effort",
    "FileSearch",
    "Options",
    "OutputFormat",
    "ServerTool",
    "ToolSpec",
    "WebSearch",
    "merge_options",
    "read_options",
]

#: No model has all of them: the nearest one that it has is requested.
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

#: Thinking tokens for each effort, for providers that count them.
BUDGETS: Final[dict[Effort, int]] = {
    "none": 0,
    "minimal": 0,
    "low": 1024,
    "medium": 8192,
    "high": 24576,
    "xhigh": 32768,
    "max": 32768,
}


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model sees it."""

    name: str
    description: str = ""
    #: The JSON schema of its arguments.
    parameters: dict[str, Any] = msgspec.field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )


class WebSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Let the provider search the web for the model."""

    #: Find only pages of these domains.
    allowed_domains: tuple[str, ...] = ()
    #: Find no pages of these domains.
    blocked_domains: tuple[str, ...] = ()
    #: The maximum number of searches in one response.
    max_uses: int | None = None


class CodeExecution(msgspec.Struct, frozen=True):
    """Let the provider run code for the model, in a sandbox of its own."""


class FileSearch(msgspec.Struct, frozen=True):
    """Let the provider search files that were uploaded to it."""

    #: The provider's ids of the collections to search.
    stores: tuple[str, ...]
    #: The maximum number of passages to find.
    max_results: int | None = None


#: A tool that the provider runs: one of these, or a dict in the provider's own form,
#: which is sent as it is.
ServerTool = WebSearch | CodeExecution | FileSearch | dict[str, Any]


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
    and never dropped silently; ``seed``, ``metadata``, ``cache`` and ``cache_key`` are
    only hints.

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
    #: Tools that the provider runs, beside those of the agent; see ``ServerTool``.
    server_tools: tuple[Any, ...] = ()
    #: True to have the provider cache the conversation, where it must be told so;
    #: ``"5m"`` or ``"1h"`` says for how long. By default an agent does this where it
    #: pays: with tools, and from the second turn of a conversation.
    cache: bool | str | None = None
    #: Routes requests with the same beginning to the same cache, at providers that take
    #: such a key; by default it is made from the beginning of the conversation.
    cache_key: str = ""
    #: The beginning of the response.
    prefill: str = ""
    metadata: dict[str, str] = {}
    #: The provider's own fields. They take precedence over the others; an object is
    #: merged with ours, and a list is added to ours.
    extra: dict[str, Any] = {}

    @property
    def forces_call(self) -> bool:
        """True if the model must call a tool."""
        return self.tool_choice not in (None, "auto", "none")

    def __post_init__(self) -> None:
        stop: Any = self.stop
        if isinstance(stop, str):
            msgspec.structs.force_setattr(self, "stop", (stop,))
        if self.effort is not None and self.effort not in get_args(Effort):
            raise ConfigurationError(
                f"effort must be one of {', '.join(get_args(Effort))}; "
                f"got {self.effort!r}"
            )
        if self.cache not in (None, False, True, "5m", "1h"):
            raise ConfigurationError(
                f'cache must be True, False, "5m" or "1h"; got {self.cache!r:.80}'
            )
        for each in self.server_tools:
            if not isinstance(each, (WebSearch, CodeExecution, FileSearch, dict)):
                raise ConfigurationError(
                    "server_tools takes WebSearch(), CodeExecution(), FileSearch(...) "
                    f"and dicts in the provider's own form; got {each!r:.80}"
                )
        for name in ("temperature", "top_p"):
            check_number(name, getattr(self, name), allow_none=True)
        for name in ("max_tokens", "thinking_tokens"):
            value = getattr(self, name)
            check_number(name, value, minimum=1, is_integer=True, allow_none=True)


# Made here and not when first needed: msgspec collects the fields of a type at first
# use, and crashes if another thread uses the type at that moment.
msgspec.convert({}, Options)
_NAMES: Final = frozenset(Options.__struct_fields__)


_DEFAULTS: Final = Options()


def read_options(options: Mapping[str, Any]) -> Options:
    """Return options by their names.

    :raises ConfigurationError: there is no option of a name, or a value is wrong.
    """
    if not options:
        return _DEFAULTS
    unknown = options.keys() - _NAMES
    if unknown:
        raise ConfigurationError(
            f"unknown option: {', '.join(sorted(map(str, unknown)))}; known options "
            f"are {', '.join(sorted(_NAMES))}. Fields that only your provider has go "
            "into extra="
        )
    stop = options.get("stop")
    if isinstance(stop, str):
        options = {**options, "stop": (stop,)}
    try:
        return msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"invalid option: {error}") from None


def merge_options(options: Options, changes: Any) -> Options:
    """Return *options* with other ones in their place.

    :param changes: a dict, or a value, of which the fields without their default count.
    :raises ConfigurationError: it is neither, or one of them is wrong.
    """
    if isinstance(changes, Mapping):
        read, names = read_options(changes), tuple(changes)
    elif isinstance(changes, Options):
        read, empty = changes, Options()
        names = tuple(
            name
            for name in Options.__struct_fields__
            if getattr(changes, name) != getattr(empty, name)
        )
    else:
        raise ConfigurationError(
            f"options takes a dict or Options(...); got {changes!r:.80}"
        )
    return msgspec.structs.replace(
        options, **{name: getattr(read, name) for name in names}
    )
