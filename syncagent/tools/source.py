"""Sources of tools: objects that say at each turn which tools they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..cancel import CancelToken
from ..exceptions import ConfigurationError
from .tool import AnyTool

__all__ = ["ToolSource", "as_tool_source", "source_name"]


class ToolSource(Protocol):
    """A source of tools, such as a server whose tools may change.

    ``Agent(tools=[source, function])`` takes sources beside tools. Any object with this
    method is one, and so is the source that its ``as_tool_source()`` returns. One
    source may be asked by many runs at once, each on its own thread.
    """

    def current_tools(self, token: CancelToken) -> Sequence[AnyTool]:
        """Return the tools that the model may call in the turn that begins.

        It is called at the begin of each turn, on the thread of the run. Return the
        same objects while nothing has changed: then nothing is encoded again.

        Cancellation: *token* is cancelled with the run; end at once then.

        :raises SyncAgentError: the run fails with this error, and with any other one
            as :exc:`~syncagent.exceptions.ToolSourceFailed`.
        """


def as_tool_source(candidate: Any) -> ToolSource | None:
    """Return the source that *candidate* is or has; ``None`` for a tool.

    :raises ConfigurationError: its ``as_tool_source()`` returns something else.
    """
    if isinstance(candidate, type):
        return None
    source: ToolSource = candidate
    if callable(getattr(candidate, "current_tools", None)):
        return source
    make = getattr(candidate, "as_tool_source", None)
    if not callable(make):
        return None
    source = make()
    if not callable(getattr(source, "current_tools", None)):
        raise ConfigurationError(
            f"as_tool_source() of {candidate!r:.80} must return an object with "
            f"current_tools(token); got {source!r:.80}"
        )
    return source


def source_name(source: ToolSource) -> str:
    """Return the name of a source for messages."""
    name = getattr(source, "name", None)
    return name if isinstance(name, str) and name else f"{source!r:.80}"
