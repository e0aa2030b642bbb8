"""A function that a model stands in for, and where it gets its agents from."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any, TypeVar

from ..agent import Agent
from ..exceptions import ConfigurationError
from ..messages import Message
from ..models.model import Model
from ..models.names import check_name
from ..run.setup import tools_by_name
from .parameters import RESERVED, Parameters

__all__ = ["AgentMaker", "StandIn"]

_StandIn = TypeVar("_StandIn", bound="StandIn")

#: The names of all settings.
_KNOWN = frozenset(inspect.signature(Agent).parameters)


class AgentMaker:
    """Makes agents that are alike, a new one for each call.

    A model that is only named is looked for when the first is made: its key need not be
    there before.

    :param settings: those of :class:`syncagent.Agent`.
    :raises ConfigurationError: something of it cannot work.
    """

    def __init__(self, model: Model | str, settings: dict[str, Any]) -> None:
        unknown = settings.keys() - _KNOWN
        if unknown:
            raise ConfigurationError(
                f"no setting is called {', '.join(sorted(unknown))}; there are "
                f"{', '.join(sorted(_KNOWN - {'model'}))}"
            )
        if inspect.isroutine(model):
            raise ConfigurationError(
                "the model is missing: write the decorator with it, as in "
                "@llm_function(model='openai:gpt-5-mini')"
            )
        # What can be iterated over once is used more often.
        kept = {
            k: list(v) if isinstance(v, Iterator) else v for k, v in settings.items()
        }
        # Once: to read the signature of a tool costs more than all the rest.
        made = tools_by_name(kept.get("tools", ()))
        self.model = model
        self.settings: dict[str, Any] = {**kept, "tools": tuple(made.values())}
        self._template: Agent | None = None
        if isinstance(model, str):
            check_name(model)
        else:
            self._template = self._make()

    def make(self) -> Agent:
        """Return an agent that nobody else has."""
        template = self._template
        if template is None:
            # Two threads may do that at once; one is as good as the other.
            template = self._template = self._make()
        return template.fork()

    def go_on(self, messages: Iterable[Message]) -> Agent:
        """Return an agent that goes on with a conversation.

        :raises ConfigurationError: it is none.
        """
        return self._make(messages=messages)

    def changed(self, settings: dict[str, Any]) -> AgentMaker:
        """Return one with other settings, the model among them."""
        given = {"model": self.model, **self.settings, **settings}
        return AgentMaker(given.pop("model"), given)

    def _make(self, **more: Any) -> Agent:
        return Agent(self.model, **{**self.settings, **more})


class StandIn:
    """What stands where a function stood, and a model does its work.

    :param function: or a class method.
    """

    __wrapped__: Callable[..., Any]
    __name__: str

    def __init__(self, function: Any, maker: AgentMaker) -> None:
        self._maker = maker
        self._is_of_class = isinstance(function, classmethod)
        plain = function.__func__ if self._is_of_class else function
        self._parameters = self._read(plain)
        #: What comes before the arguments: the object, or the class, of a method.
        self._receiver: tuple[Any, ...] = ()
        stand_in: Any = self
        functools.update_wrapper(stand_in, plain)

    def _read(self, function: Callable[..., Any]) -> Parameters:
        return Parameters(function)

    def _given(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments of a call by name, and what is not for the model."""
        how = {name: kwargs.pop(name, None) for name in RESERVED}
        return self._parameters.bind((*self._receiver, *args), kwargs), how

    def _changed(self: _StandIn, settings: dict[str, Any]) -> _StandIn:
        other = copy(self)
        other._maker = self._maker.changed(settings)
        return other

    def _bound(self: _StandIn, instance: Any, owner: Any) -> _StandIn:
        """Return what is found where a class has it as a method."""
        receiver = instance
        if self._is_of_class:
            receiver = type(instance) if owner is None else owner
        if receiver is None or self._parameters.receiver is None:
            return self
        other = copy(self)
        other._receiver = (receiver,)
        return other

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._parameters.label}>"
