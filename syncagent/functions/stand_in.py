"""The base of functions that a model implements, and the source of their agents."""

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
from ..models.names import check_name, explain_settings
from ..run.toolbox import sort_tools
from .parameters import RESERVED, Parameters

__all__ = ["AgentMaker", "StandIn"]

_StandIn = TypeVar("_StandIn", bound="StandIn")

#: The names of all settings of an agent.
_SETTINGS = frozenset(inspect.signature(Agent).parameters)


class AgentMaker:
    """Makes equal agents, a new one for each call.

    A model given by name is looked up when the first agent is made: its key need not
    be set before.

    :param settings: those of :class:`syncagent.Agent`.
    :raises ConfigurationError: a setting is unknown or invalid.
    """

    def __init__(self, model: Model | str, settings: dict[str, Any]) -> None:
        unknown = settings.keys() - _SETTINGS
        if unknown:
            hint = explain_settings(model, sorted(unknown))
            raise ConfigurationError(
                hint
                or f"unknown setting: {', '.join(sorted(unknown))}; known settings: "
                f"{', '.join(sorted(_SETTINGS - {'model'}))}"
            )
        if inspect.isroutine(model):
            raise ConfigurationError(
                "the model is missing: pass it to the decorator, as in "
                "@llm_function(model='openai:gpt-6-luna')"
            )
        # Iterators can be read only once, and every agent needs their items.
        reusable = {
            name: list(value) if isinstance(value, Iterator) else value
            for name, value in settings.items()
        }
        # Once for all agents: reading the signature of a tool is the expensive part.
        tools, sources = sort_tools(reusable.get("tools", ()))
        self.model = model
        self.settings: dict[str, Any] = {
            **reusable,
            "tools": (*tools.values(), *sources),
        }
        self._template: Agent | None = None
        if isinstance(model, str):
            check_name(model)
        else:
            self._template = self._make()

    def make(self) -> Agent:
        """Return a new agent."""
        template = self._template
        if template is None:
            # Two threads may get here at once; either template will do.
            template = self._template = self._make()
        return template.fork()

    def continuing(self, messages: Iterable[Message]) -> Agent:
        """Return an agent that continues a conversation.

        :raises ConfigurationError: *messages* is not a conversation.
        """
        return self._make(messages=messages)

    def changed(self, settings: dict[str, Any]) -> AgentMaker:
        """Return a maker with other settings, ``model`` included."""
        merged = {"model": self.model, **self.settings, **settings}
        return AgentMaker(merged.pop("model"), merged)

    def _make(self, **settings: Any) -> Agent:
        return Agent(self.model, **{**self.settings, **settings})


class StandIn:
    """An object in place of a function, whose work a model does.

    :param function: a function, or a class method.
    :param read: reads the parameters of the function.
    """

    __wrapped__: Callable[..., Any]
    __name__: str

    def __init__(
        self,
        function: Any,
        maker: AgentMaker,
        read: Callable[[Callable[..., Any]], Parameters] = Parameters,
    ) -> None:
        self._maker = maker
        self._is_class_method = isinstance(function, classmethod)
        plain = function.__func__ if self._is_class_method else function
        self._parameters = read(plain)
        #: The object, or the class, that a method is bound to; passed first.
        self._receiver: tuple[Any, ...] = ()
        stand_in: Any = self
        functools.update_wrapper(stand_in, plain)

    def _bind(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments of a call by name, and its reserved arguments."""
        options = {name: kwargs.pop(name, None) for name in RESERVED}
        return self._parameters.bind((*self._receiver, *args), kwargs), options

    def _changed(self: _StandIn, settings: dict[str, Any]) -> _StandIn:
        other = copy(self)
        other._maker = self._maker.changed(settings)
        return other

    def _bound(self: _StandIn, instance: Any, owner: Any) -> _StandIn:
        """Return the method that is found on *instance* or *owner*."""
        receiver = instance
        if self._is_class_method:
            receiver = type(instance) if owner is None else owner
        if receiver is None or self._parameters.receiver is None:
            return self
        other = copy(self)
        other._receiver = (receiver,)
        return other

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._parameters.label}>"
