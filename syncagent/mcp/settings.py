"""Settings of an MCP server that hold for every transport."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from .._checks import check_number
from ..exceptions import ConfigurationError
from ..tools.context import ToolContext
from .connection import Era

__all__ = [
    "ApprovalPolicy",
    "MCPTimeouts",
    "Restart",
    "checked_era",
    "checked_policy",
]

_POLICIES: Final = ("never", "always", "unless_read_only")

#: When a tool of a server needs an approval: never, always, unless the server calls it
#: read-only (only with ``trust_annotations=True``), or a function of the arguments and
#: the context.
ApprovalPolicy = (
    Literal["never", "always", "unless_read_only"]
    | Callable[[dict[str, Any], ToolContext], bool | str]
)


class MCPTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds for each kind of wait; ``None`` means no limit.

    The token of a call caps them all.

    :raises ConfigurationError: one of them is not a positive number.
    """

    #: For the start of a server and its first words; ``npx`` may download it first.
    start: float = 60.0
    #: For lists, reads and prompts.
    list: float | None = 30.0
    #: For a call, without a sign of life from the server; progress is one.
    idle: float | None = 300.0
    #: For a call as a whole.
    total: float | None = 1800.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_number(
                f"timeout {name}",
                getattr(self, name),
                is_positive=True,
                allow_none=name != "start",
                unit="seconds",
            )


class Restart(msgspec.Struct, frozen=True):
    """How often a server that has ended is started again: *times* in *per* seconds.

    A server is only started when a call needs it, and no call is repeated.

    :raises ConfigurationError: a number is out of range.
    """

    times: int = 3
    per: float = 60.0

    def __post_init__(self) -> None:
        check_number("times", self.times, is_integer=True)
        check_number("per", self.per, is_positive=True, unit="seconds")


def checked_era(era: Era | Literal["auto"]) -> Era | None:
    """Return the era that a user has given; ``None`` if it is to be found out.

    :raises ConfigurationError: there is no such era.
    """
    if era not in ("auto", "legacy", "modern"):
        raise ConfigurationError(
            f"era must be 'auto', 'legacy' or 'modern'; got {era!r:.80}"
        )
    return None if era == "auto" else era


def checked_policy(
    policy: ApprovalPolicy, *, trust_annotations: bool
) -> ApprovalPolicy:
    """Return *policy* if it can be followed.

    :raises ConfigurationError: it cannot.
    """
    if not callable(policy) and policy not in _POLICIES:
        raise ConfigurationError(
            "requires_approval of an MCP server must be 'never', 'always', "
            f"'unless_read_only' or a function; got {policy!r:.80}"
        )
    if policy == "unless_read_only" and not trust_annotations:
        raise ConfigurationError(
            "requires_approval='unless_read_only' believes what the server says of its "
            "tools; if you trust it, pass trust_annotations=True"
        )
    return policy
