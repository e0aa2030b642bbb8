"""The tools of an agent: its own, and those that its sources have at the moment.

Guarantees:

- Any number of runs may ask at once. A :class:`Toolset` never changes once it is made,
  so the tools of a round are those of the turn that called them.
- A tool of a source never replaces another one.
- While the sources return the same objects, all turns share one toolset.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from operator import is_
from typing import Any, Final

import msgspec

from .._context import run_id
from ..cancel import CancelToken
from ..cancel.handler_errors import raised_by_signal_handler
from ..exceptions import ConfigurationError, SyncAgentError, ToolSourceFailed
from ..options import ToolSpec
from ..tools.settings import ToolDefaults
from ..tools.source import ToolSource, as_tool_source, source_name
from ..tools.tool import AnyTool, Tool, as_tool

__all__ = ["Toolbox", "Toolset", "sort_tools"]

_log = logging.getLogger("syncagent.tools")


class Toolset(msgspec.Struct, frozen=True, eq=False):
    """The tools of one turn."""

    by_name: dict[str, AnyTool]
    #: Their descriptions for the model.
    specs: tuple[ToolSpec, ...]

    @classmethod
    def of(cls, by_name: dict[str, AnyTool]) -> Toolset:
        """Return the set of these tools."""
        return cls(by_name, tuple(tool.spec for tool in by_name.values()))


class Toolbox:
    """The tools and the sources that an agent was given.

    :param defaults: for tools that say nothing themselves.
    :raises ConfigurationError: one of them is neither, or two tools share a name.
    """

    def __init__(self, tools: Iterable[Any], defaults: ToolDefaults) -> None:
        own, sources = sort_tools(tools)
        #: The tools without those of sources.
        self.own = Toolset.of(
            {name: tool.with_defaults(defaults) for name, tool in own.items()}
        )
        self.sources = sources
        #: The tools of the newest turn.
        self.latest = self.own
        self._defaults: Final = defaults
        #: The objects that the sources returned, and the set made of them.
        self._made: tuple[tuple[Any, ...], Toolset] = ((), self.own)
        #: The names of dropped tools that a warning was logged for.
        self._dropped: Final[set[str]] = set()

    def extended(self, tools: Iterable[Any]) -> Toolbox:
        """Return a box with more tools and sources, for one run.

        :raises ConfigurationError: a name is taken.
        """
        own, sources = sort_tools(tools)
        taken = sorted(own.keys() & self.own.by_name.keys())
        if taken:
            raise ConfigurationError(
                f"the agent has a tool named {taken[0]!r} already; rename the one of "
                "the run with @tool(name=...)"
            )
        other = Toolbox((), self._defaults)
        more = {name: each.with_defaults(self._defaults) for name, each in own.items()}
        other.own = other.latest = Toolset.of({**self.own.by_name, **more})
        other.sources = (*self.sources, *sources)
        return other

    def ask_sources(self, token: CancelToken) -> Toolset:
        """Return the tools for a turn that begins.

        Cancellation: as the sources end, which get *token*.

        :raises ToolSourceFailed: a source raised an error that is not ours, or returned
            something that is no list of tools.
        """
        offers = [(source, _offer(source, token)) for source in self.sources]
        items = tuple(item for _, offer in offers for item in offer)
        known, toolset = self._made
        is_same = len(items) == len(known) and all(map(is_, items, known))
        if not is_same:
            toolset = self._make(offers)
            self._made = (items, toolset)
        self.latest = toolset
        return toolset

    def _make(self, offers: list[tuple[ToolSource, tuple[Any, ...]]]) -> Toolset:
        by_name = dict(self.own.by_name)
        for source, offer in offers:
            for item in offer:
                try:
                    tool = as_tool(item)
                    if tool.name not in by_name:
                        by_name[tool.name] = tool.with_defaults(self._defaults)
                        continue
                except ConfigurationError as error:
                    raise _failure(source, f"gave an invalid tool: {error}") from error
                if tool.name not in self._dropped:
                    self._dropped.add(tool.name)
                    _log.warning(
                        "run %s: the tool %r of the source %s is not used, because "
                        "another tool has its name",
                        *(run_id.get(), tool.name, source_name(source)),
                    )
        return Toolset.of(by_name)


def _offer(source: ToolSource, token: CancelToken) -> tuple[Any, ...]:
    """Ask one source."""
    try:
        offer: Any = source.current_tools(token)
        if not isinstance(offer, (str, dict)) and isinstance(offer, Iterable):
            return tuple(offer)
    except Exception as error:
        if raised_by_signal_handler(error) or isinstance(error, MemoryError):
            raise
        token.checkpoint()  # by the token first, never by the type of the error
        if isinstance(error, SyncAgentError):
            raise
        raise _failure(source, f"failed: {type(error).__name__}: {error}") from error
    raise _failure(source, f"must return a list of tools; got {offer!r:.80}")


def _failure(source: ToolSource, what: str) -> ToolSourceFailed:
    name = source_name(source)
    return ToolSourceFailed(f"the tool source {name} {what}", source=name)


def sort_tools(
    tools: Iterable[Any],
) -> tuple[dict[str, AnyTool], tuple[ToolSource, ...]]:
    """Return the tools made of what a user lists, by name, and the sources among them.

    :raises ConfigurationError: *tools* is not a list, or two tools share a name.
    """
    listed: Any = tools
    is_single = callable(tools) or isinstance(tools, (str, Tool))
    is_source = as_tool_source(listed) is not None
    if is_single or is_source or not isinstance(listed, Iterable):
        raise ConfigurationError(
            f"tools must be a list, as in tools=[f]; got {tools!r:.80}"
        )
    found: dict[str, AnyTool] = {}
    sources: list[ToolSource] = []
    for candidate in tools:
        source = as_tool_source(candidate)
        if source is not None:
            sources.append(source)
            continue
        tool = as_tool(candidate)
        if found.setdefault(tool.name, tool) is not tool:
            raise ConfigurationError(
                f"two tools are named {tool.name!r}; rename one with @tool(name=...)"
            )
    return found, tuple(sources)
