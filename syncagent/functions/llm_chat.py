"""Chats as functions: events come out, and the history stays valid."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from inspect import Signature
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    TypeVar,
    get_origin,
    overload,
)

from .._closeable import Closeable
from ..agent import Agent
from ..cancel import CancelMode, Receipt
from ..cancel.once import finish_despite_signals
from ..conversation.request import Cancel
from ..conversation.run_stream import RunStream
from ..events import RunFinished, StreamEvent
from ..exceptions import AgentBusy, ConfigurationError, Origin
from ..messages import Message
from ..models.model import Model
from ..result import RunResult
from .parameters import Parameters, rendered
from .stand_in import AgentMaker, StandIn

__all__ = ["ChatStream", "LlmChat", "llm_chat"]

_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_S = TypeVar("_S")

#: What the parameter with the conversation is called.
_HISTORIES: Final = ("history", "chat_history")
#: What a chat may say that it returns.
_ITERATORS: Final = (Iterator, Iterable, Generator)


class ChatStream(Closeable, Iterator[StreamEvent]):
    """What happens in one turn of a chat: iterate over it, best in a ``with`` block.

    When it ends, however it does, the list that was given as the history has what was
    said; :attr:`history` has it in any case. Who stops early closes it, which cancels
    the run with origin ``closed``; so does dropping it.
    """

    def __init__(self, stream: RunStream, keeper: _Keeper) -> None:
        self.run_id = stream.run_id
        self._stream = stream
        self._keeper = keeper
        # It does not know this object: what is dropped is closed at once.
        self._events = _follow(stream, keeper)

    @property
    def result(self) -> RunResult:
        """What the run has come to.

        :raises ConfigurationError: it has not ended, or has ended with an error.
        """
        return self._stream.result

    @property
    def history(self) -> tuple[Message, ...]:
        """The conversation, fit to go on with; what it was before until it has ended.

        After an error it has what had come by then.
        """
        return self._keeper.messages

    def cancel(
        self,
        reason: str = "",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
    ) -> Receipt:
        """Cancel it, from any thread. As safe as :meth:`syncagent.Agent.cancel`."""
        return self._stream.cancel(reason, origin, mode=mode, force=force)

    def close(self) -> None:
        """End the run if it has not ended, and keep what was said."""
        self._stream.close()
        try:
            self._events.close()
        except ValueError as error:
            if "already executing" in str(error):
                return  # another thread is in the middle of a step, and keeps it
            raise
        finish_despite_signals(self._keeper.keep)

    def __iter__(self) -> Iterator[StreamEvent]:
        return self._events

    def __next__(self) -> StreamEvent:
        return next(self._events)

    def __repr__(self) -> str:
        return f"<ChatStream of run {self.run_id}>"


class _Keeper:
    """Puts what was said where the caller has the history.

    :param history: what the caller gave.
    :raises AgentBusy: another chat is to put something into that list.
    """

    def __init__(self, agent: Agent, history: Any, label: str) -> None:
        self.messages: tuple[Message, ...] = agent.messages
        self.is_done = False
        self._agent = agent
        self._list = history if isinstance(history, list) else None
        if self._list is not None:
            with _lock:
                other = _keepers.setdefault(id(self._list), self)
                if other is not self and not other.is_done:
                    raise AgentBusy(
                        f"{label}: another chat goes on with this history; wait for "
                        "its end, close it, or give this one a copy: list(history)"
                    )
                _keepers[id(self._list)] = self

    def keep(self, result: RunResult | None = None) -> None:
        """Take over what was said, once; may be done again if it is cut short.

        :param result: of the run, if that has one.
        """
        if self.is_done:
            return
        agent = self._agent
        if agent.interrupts:  # nobody can answer them any more
            agent.cancel("nobody was there to answer")
        is_elsewhere = result is not None and result.stop_reason == "backgrounded"
        self.messages = result.messages if result and is_elsewhere else agent.messages
        if self._list is not None:
            self._list[:] = self.messages
        self.is_done = True


#: Those of all chats that have not ended, by the identity of the list; weak, as a chat
#: that is dropped before it begins never ends.
_keepers: weakref.WeakValueDictionary[int, _Keeper] = weakref.WeakValueDictionary()
#: Reentrant, for the sake of signal handlers.
_lock = threading.RLock()


def _start_over() -> None:
    """Have a forked child not wait for a thread that it does not have."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)


def _follow(stream: RunStream, keeper: _Keeper) -> Generator[StreamEvent, None, None]:
    """Yield the events of a run, and keep what was said, however it ends.

    Cancellation: ends at once; the last event says so.
    """
    try:
        for event in stream:
            if isinstance(event, RunFinished):
                finish_despite_signals(partial(keeper.keep, event.result))
            yield event
    finally:
        finish_despite_signals(stream.close)
        finish_despite_signals(keeper.keep)


class LlmChat(StandIn, Generic[_P]):
    """A chat as a function; :func:`llm_chat` makes it.

    Any number of threads may call it at once, each with a history of its own.
    """

    def __init__(self, function: Callable[_P, Any], maker: AgentMaker) -> None:
        super().__init__(function, maker)
        self._maker = maker.changed({"system": self._parameters.instruction})

    def _read(self, function: Callable[..., Any]) -> Parameters:
        return _ChatParameters(function)

    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> ChatStream: ...

    @overload
    def __call__(
        self, *args: Any, cancel: Cancel | None, timeout: float | None = ..., **kw: Any
    ) -> ChatStream: ...

    @overload
    def __call__(
        self, *args: Any, timeout: float | None, cancel: Cancel | None = ..., **kw: Any
    ) -> ChatStream: ...

    def __call__(self, *args: Any, **kwargs: Any) -> ChatStream:
        """Say something to the model, and return what happens, as it happens.

        Cancellation: ends at once, wherever it waits; the last event says so, and the
        history is valid.

        :param cancel: an event or a token of yours that ends it; it is never cleared.
        :param timeout: seconds after which it is cancelled.
        :raises AgentBusy: another chat goes on with the same list.
        :raises ConfigurationError: the history is none, or the arguments cannot be
            said. Errors of the model come where the next event would.
        """
        given, how = self._given(args, kwargs)
        parameters = self._parameters
        assert isinstance(parameters, _ChatParameters)
        history, words = given.pop(parameters.history), given.pop(parameters.words)
        prompt = rendered(words, given, parameters.label)
        agent = self.agent(history)
        keeper = _Keeper(agent, history, parameters.label)
        try:
            return ChatStream(agent.stream(prompt, **how), keeper)
        except BaseException:
            keeper.is_done = True  # the error may keep it, and the list is free
            raise

    def prompt(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Return what a call with these arguments says to the model.

        For the agent of :meth:`agent`, which knows only the history.

        :raises ConfigurationError: an argument cannot be said.
        """
        given, _ = self._given(args, kwargs)
        parameters = self._parameters
        assert isinstance(parameters, _ChatParameters)
        del given[parameters.history]
        told = rendered(given.pop(parameters.words), given, parameters.label)
        return told if isinstance(told, list) else [told]

    def agent(self, history: Iterable[Message] | None = None) -> Agent:
        """Return an agent that goes on with a conversation as this chat would.

        For what a chat does not have: ``start()``, ``drive()``, ``resume()``.

        :raises ConfigurationError: the history is none.
        """
        given: Any = history
        if isinstance(given, str) or not isinstance(given, (Iterable, type(None))):
            self._parameters.refuse(
                f"the history is a list of messages, or None; got {given!r:.60}"
            )
        return self._maker.go_on(() if history is None else history)

    def using(self, **settings: Any) -> LlmChat[_P]:
        """Return the same with other settings: another model, for a test.

        :param settings: those of :func:`llm_chat`.
        """
        _refuse_own(settings)
        return self._changed(settings)

    @overload
    def __get__(self, instance: None, owner: Any = None) -> LlmChat[_P]: ...

    @overload
    def __get__(
        self: LlmChat[Concatenate[_S, _Q]], instance: _S, owner: Any = None
    ) -> LlmChat[_Q]: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self._bound(instance, owner)


def llm_chat(
    model: Model | str, *, tools: Iterable[Any] = (), **settings: Any
) -> Callable[[Callable[_P, Any]], LlmChat[_P]]:
    """Make a chat of a function.

    The docstring is what the model is told about its task. The parameter ``history``
    (or ``chat_history``) is the conversation so far: a list is brought up to date when
    a call ends, however it ends; ``None`` is a new one. The first of the others is what
    the user says; the rest is told to the model as data beside it. The body is never
    run: leave it at the docstring.

    A call returns a :class:`.ChatStream`, and takes ``cancel=`` and ``timeout=`` beside
    the function's own parameters.

    :param model: a model, or the name of one, such as ``"openai:gpt-5-mini"``.
    :param tools: as for :class:`syncagent.Agent`.
    :param settings: others of :class:`syncagent.Agent`, but for ``system`` and
        ``messages``.
    :raises ConfigurationError: the function, or a setting, cannot work so.
    """
    _refuse_own(settings)
    maker = AgentMaker(model, {"tools": tools, **settings})
    return lambda function: LlmChat(function, maker)


def _refuse_own(settings: dict[str, Any]) -> None:
    """Refuse what a chat has by itself."""
    if "system" in settings or "messages" in settings:
        raise ConfigurationError(
            "the docstring of a chat is what the model is told (system=), and its "
            "history is the conversation (messages=); leave those away"
        )


class _ChatParameters(Parameters):
    """Those of a chat: the conversation, what the user says, and perhaps more."""

    def _unsaid(self) -> tuple[str, str]:
        histories = [name for name in self.names if name in _HISTORIES]
        words = [name for name in self.names if name not in _HISTORIES]
        if len(histories) != 1:
            self.refuse(
                "a chat has one parameter for the conversation, called history or "
                f"chat_history; this one has {' and '.join(histories) or 'none'}"
            )
        if not words:
            self.refuse("it has no parameter for what the user says")
        self._check_return()
        self.history, self.words = histories[0], words[0]
        return self.history, self.words

    def _check_return(self) -> None:
        """Refuse a type that promises a value."""
        hint = self.signature.return_annotation
        if hint in (Signature.empty, None, Any, ChatStream) or isinstance(hint, str):
            return  # what is only a string may be for type checkers
        if get_origin(hint) not in _ITERATORS and hint not in _ITERATORS:
            self.refuse(
                f"a chat yields events, and returns no {hint!r}; leave the return type "
                "away, or write -> None, and take llm_function for an answer of a type"
            )
