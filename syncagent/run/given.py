"""The data and settings that a caller gives to one run, beside its prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from ..exceptions import ConfigurationError
from ..models.limiter import Limiter
from ..options import Options
from .budget import Budget
from .setup import Setup
from .toolbox import sort_tools

__all__ = ["Given", "NOTHING", "RunOptions", "check_metadata"]

#: Options for one run: by name, or as a value whose other fields say nothing.
RunOptions = Mapping[str, Any] | Options


class Given(msgspec.Struct, frozen=True, eq=False):
    """Data and settings of one run; they outlive a pause, and are not saved."""

    #: Data of the caller's own: never shown, sent to a model, or saved.
    deps: Any = None
    #: JSON values about the run. Saved with it, unlike the others.
    metadata: dict[str, Any] = {}
    options: RunOptions | None = None
    tools: tuple[Any, ...] = ()
    #: The agent's setup with these options, tools and policies; ``None`` for no change.
    setup: Setup | None = None
    #: In place of the model's and the agent's.
    limiter: Limiter | None = None
    budget: Budget | None = None

    @classmethod
    def of(
        cls,
        agent_setup: Setup,
        deps: Any,
        options: RunOptions | None,
        tools: Iterable[Any],
        metadata: Mapping[str, Any] | None,
        before: Given | None = None,
        limiter: Limiter | None = None,
        budget: Budget | None = None,
    ) -> Given | None:
        """Return what the arguments of a method give to a run.

        :param before: what a paused run was given; it holds where nothing new is given.
        :return: ``None`` if that holds in all.
        :raises ConfigurationError: one of them cannot be used; the message says why.
        """
        # By type: data of the caller's own may have any truth value.
        is_empty = isinstance(tools, (tuple, list)) and not tools
        others = (deps, options, metadata, limiter, budget)
        if is_empty and all(each is None for each in others):
            return None
        before = before or NOTHING
        more = before.tools
        if not is_empty:
            own, sources = sort_tools(tools)
            more = (*own.values(), *sources)
        options = before.options if options is None else options
        limiter = before.limiter if limiter is None else limiter
        budget = before.budget if budget is None else budget
        setup = None
        if more or any(each is not None for each in (options, limiter, budget)):
            setup = agent_setup.for_run(options, more, limiter, budget)
        return cls(
            before.deps if deps is None else deps,
            before.metadata if metadata is None else check_metadata(metadata),
            *(options, more, setup, limiter, budget),
        )

    def __repr__(self) -> str:
        return "<Given>"  # never the data


#: Of most runs.
NOTHING: Final = Given()


def check_metadata(metadata: Any) -> dict[str, Any]:
    """Return a copy of the metadata as it will be saved.

    :raises ConfigurationError: it is not a dict that JSON can represent.
    """
    problem = f"got a {type(metadata).__name__}"
    if isinstance(metadata, Mapping) and all(isinstance(key, str) for key in metadata):
        try:
            body = msgspec.json.encode(dict(metadata))
            copied: dict[str, Any] = msgspec.json.decode(body)
        except (TypeError, ValueError, RecursionError) as error:
            problem = str(error)
        else:
            return copied
    raise ConfigurationError(
        "metadata must be a dict with strings as keys and values that JSON can "
        f"represent, such as {{'ticket': '42'}}: {problem}; objects go into deps="
    )
