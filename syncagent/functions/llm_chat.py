"""``@llm_chat``: chats as functions that yield events and update a history."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from inspect import Signature
from typing import (
    TYPE_CHECKING,
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
from .._forks import in_child
from ..agent import Agent
from ..cancel import RunClaim
from ..cancel.claim import CancelsRun
from ..cancel.once import finish_despite_signals
from ..conversation.request import Cancel
from ..conversation.run_stream import RunStream
from ..events import RunFinished, StreamEvent
from ..exceptions import AgentBusy, ConfigurationError
from ..messages import Message
from ..models.model import Model
from ..result import RunResult
from .parameters import Parameters, rendered
from .stand_in import AgentMaker, StandIn

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._arguments import AgentArguments, ChatArguments

__all__ = ["ChatStream", "LlmChat", "llm_chat"]

_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_S = TypeVar("_S")

#: The names of the parameter with the conversation.
_HISTORIES: Final = ("history", "chat_history")
#: The return types that a chat may declare.
_ITERATORS: Final = (Iterator, Iterable, Generator)


class ChatStream(CancelsRun, Closeable, Iterator[StreamEvent]):
    """The events of one turn of a chat; iterate over it, best in a ``with`` block.

    When it ends, however it ends, the new messages are added to the list that was
    passed as the history; :attr:`history` has them in any case. To stop early, close
    it: that cancels the run with origin ``closed``. Dropping it does the same.
    """

    def __init__(self, stream: RunStream, update: _HistoryUpdate) -> None:
        self.run_id = stream.run_id
        self._stream = stream
        self._update = update
        # The generator does not refer to this object, so a dropped stream is closed at
        # once.
        self._events = _updating(stream, update)

    @property
    def result(self) -> RunResult:
        """The result of the run.

        :raises ConfigurationError: the run has not ended, or it ended with an error.
        """
        return self._stream.result

    @property
    def history(self) -> tuple[Message, ...]:
        """The conversation after this turn, ready to be continued.

        Until the turn has ended it is the conversation before it; after an error it has
        the messages so far.
        """
        return self._update.messages

    def _find_claim(self) -> RunClaim:
        return self._stream.claim

    def close(self) -> None:
        """End the run if it has not ended, and update the history."""
        self._stream.close()
        try:
            self._events.close()
        except ValueError as error:
            if "already executing" in str(error):
                return  # another thread is iterating, and updates the history
            raise
        finish_despite_signals(self._update.apply)

    def __iter__(self) -> Iterator[StreamEvent]:
        return self._events

    def __next__(self) -> StreamEvent:
        return next(self._events)

    def __repr__(self) -> str:
        return f"<ChatStream of run {self.run_id}>"


class _HistoryUpdate:
    """The pending update of the caller's history.

    :param history: the list, or whatever the caller passed.
    :raises AgentBusy: another chat has an update pending for the same list.
    """

    def __init__(self, agent: Agent, history: Any, label: str) -> None:
        self.messages: tuple[Message, ...] = agent.messages
        self.is_done = False
        self._agent = agent
        self._list = history if isinstance(history, list) else None
        if self._list is not None:
            with _lock:
                other = _pending.setdefault(id(self._list), self)
                if other is not self and not other.is_done:
                    raise AgentBusy(
                        f"{label}: another chat is using this history; wait for its "
                        "end, close it, or pass a copy: list(history)"
                    )
                _pending[id(self._list)] = self

    def apply(self, result: RunResult | None = None) -> None:
        """Update the history, once; may be called again if a signal cut it short.

        :param result: of the run, if it has one.
        """
        if self.is_done:
            return
        agent = self._agent
        if agent.interrupts:  # a chat has no way to answer them later
            agent.cancel("the chat ended without an answer")
        # In the background the agent's messages keep changing.
        is_elsewhere = result is not None and result.stop_reason == "backgrounded"
        self.messages = result.messages if result and is_elsewhere else agent.messages
        if self._list is not None:
            self._list[:] = self.messages
        self.is_done = True


#: The pending updates by the id of their list. Weak: a stream that is dropped before
#: its first event never ends.
_pending: weakref.WeakValueDictionary[int, _HistoryUpdate] = (
    weakref.WeakValueDictionary()
)
#: Reentrant, because a signal handler may start a chat.
_lock = threading.RLock()


@in_child
def _replace_lock() -> None:
    """Replace the lock in a forked child, where its owner may not exist."""
    global _lock
    _lock = threading.RLock()


def _updating(
    stream: RunStream, update: _HistoryUpdate
) -> Generator[StreamEvent, None, None]:
    """Yield the events of a run, and update the history, however it ends.

    Cancellation: ends at once; the last event says so.
    """
    try:
        for event in stream:
            if isinstance(event, RunFinished):
                finish_despite_signals(partial(update.apply, event.result))
            yield event
    finally:
        finish_despite_signals(stream.close)
        finish_despite_signals(update.apply)


class LlmChat(StandIn, Generic[_P]):
    """A chat as a function; :func:`llm_chat` makes it.

    Any number of threads may call it at once, each with its own history.
    """

    def __init__(self, function: Callable[_P, Any], maker: AgentMaker) -> None:
        super().__init__(function, maker, _ChatParameters)
        self._maker = maker.changed({"system": self._parameters.instruction})

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
        """Send the user's input to the model, and return the events as a stream.

        Cancellation: ends at once, wherever it waits; the last event says so, and the
        history is valid.

        :param cancel: an event or a token that cancels the call; it is never cleared.
        :param timeout: seconds after which the call is cancelled.
        :raises AgentBusy: another chat is using the same list.
        :raises ConfigurationError: the history is invalid, or an argument cannot be
            sent. Errors of the model are raised by the stream.
        """
        history, prompt, options = self._prepare(args, kwargs)
        agent = self.agent(history)
        update = _HistoryUpdate(agent, history, self._parameters.label)
        try:
            return ChatStream(agent.stream(prompt, **options), update)
        except BaseException:
            # The error may keep the update alive, but the list is free again.
            update.is_done = True
            raise

    def _prepare(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Return the history, the prompt, and the options of a call."""
        arguments, options = self._bind(args, kwargs)
        parameters = self._parameters
        assert isinstance(parameters, _ChatParameters)
        history = arguments.pop(parameters.history)
        user_input = arguments.pop(parameters.user_input)
        return history, rendered(user_input, arguments, parameters.label), options

    def prompt(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Return the prompt of a call with these arguments.

        For the agent of :meth:`agent`, which has only the history.

        :raises ConfigurationError: an argument cannot be sent.
        """
        _, prompt, _ = self._prepare(args, kwargs)
        return prompt if isinstance(prompt, list) else [prompt]

    def agent(self, history: Iterable[Message] | None = None) -> Agent:
        """Return an agent that continues a conversation as this chat would.

        It has the methods that a chat lacks: ``start()``, ``drive()``, ``resume()``.

        :raises ConfigurationError: the history is invalid.
        """
        value: Any = history
        if isinstance(value, str) or not isinstance(value, (Iterable, type(None))):
            self._parameters.refuse(
                f"the history must be a list of messages, or None; got {value!r:.60}"
            )
        return self._maker.continuing(() if history is None else history)

    def using(self, **settings: Unpack[ChatArguments]) -> LlmChat[_P]:
        """Return a copy with other settings, such as another model for a test.

        :param settings: those of :func:`llm_chat`.
        """
        _refuse_own(settings)
        return self._changed({**settings})

    @overload
    def __get__(self, instance: None, owner: Any = None) -> LlmChat[_P]: ...

    @overload
    def __get__(
        self: LlmChat[Concatenate[_S, _Q]], instance: _S, owner: Any = None
    ) -> LlmChat[_Q]: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self._bound(instance, owner)


def llm_chat(
    model: Model | str,
    *,
    tools: Iterable[Any] = (),
    **settings: Unpack[AgentArguments],
) -> Callable[[Callable[_P, Any]], LlmChat[_P]]:
    """Make a chat of a function.

    The docstring is the system prompt. The parameter ``history`` (or ``chat_history``)
    is the conversation so far: a list is updated when a call ends, however it ends;
    ``None`` starts a new conversation. The first other parameter is the user's input;
    the rest is sent with it as data. The body is never run: write only the docstring.

    A call returns a :class:`.ChatStream`, and also takes ``cancel=`` and ``timeout=``.

    :param model: a model, or the name of one, such as ``"openai:gpt-6-luna"``.
    :param tools: as for :class:`syncagent.Agent`.
    :param settings: others of :class:`syncagent.Agent`, except ``system`` and
        ``messages``.
    :raises ConfigurationError: the function or a setting is invalid.
    """
    _refuse_own(settings)
    maker = AgentMaker(model, {"tools": tools, **settings})
    return lambda function: LlmChat(function, maker)


def _refuse_own(settings: Any) -> None:
    """Refuse the settings that a chat takes from its function."""
    if "system" in settings or "messages" in settings:
        raise ConfigurationError(
            "a chat takes system= from its docstring and messages= from its history; "
            "remove both settings"
        )


class _ChatParameters(Parameters):
    """The parameters of a chat: the history, the user's input, and further data."""

    def _not_data(self) -> tuple[str, str]:
        histories = [name for name in self.names if name in _HISTORIES]
        others = [name for name in self.names if name not in _HISTORIES]
        if len(histories) != 1:
            self.refuse(
                "a chat needs one parameter for the conversation, called history or "
                f"chat_history; got {' and '.join(histories) or 'none'}"
            )
        if not others:
            self.refuse("it has no parameter for the user's input")
        hint = self.signature.return_annotation
        if not (
            hint in (Signature.empty, None, Any, ChatStream, *_ITERATORS)
            or get_origin(hint) in _ITERATORS
            or isinstance(hint, str)  # it may be meant for type checkers only
        ):
            self.refuse(
                f"a chat yields events and cannot return {hint!r}; remove the return "
                "type, write -> None, or use llm_function for a typed result"
            )
        self.history, self.user_input = histories[0], others[0]
        return self.history, self.user_input
