"""Conversations of a chat, with an agent or with a function, and their runs.

A run works on threads of its own; its events are brought to the screen's thread, in
order and without a loss.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from ...agent import Agent
from ...background.handle import Handle
from ...background.subscriptions import LoggedEvent
from ...cancel import CancelToken, clock
from ...events import RunFinished, TextDelta, TurnFinished
from ...exceptions import Cancelled, ConfigurationError
from ...interrupts import Interrupt
from ...messages import Message, Text
from ...result import RunResult

__all__ = [
    "AgentChatRun",
    "AgentConversation",
    "ChatConversation",
    "ChatFunction",
    "ChatRun",
    "FunctionConversation",
]

#: Events that may wait between a run and the screen, which takes them at once.
_BUFFER: Final = 100_000
#: Seconds for the run's thread to end after its last event.
_JOIN_SECONDS: Final = 5.0

#: ``function(message, history=..., cancel=...)``, which yields events.
ChatFunction = Callable[..., Iterable[Any]]
#: :meth:`syncagent.cli.chat.screen.Screen.post`.
Post = Callable[[Callable[[], object]], object]


class ChatRun(ABC):
    """The run that answers one prompt; all methods belong to the screen's thread.

    :param prompt: the text that the user typed.
    """

    def __init__(self, prompt: str, conversation: ChatConversation) -> None:
        self.prompt: Final = prompt
        self.conversation = conversation
        self.started: Final = clock.now()
        #: Its number in ``/runs``, 0 in the foreground.
        self.number = 0
        #: The conversation that continued without this run.
        self.fork: ChatConversation | None = None
        self.result: RunResult | None = None
        self.error: BaseException | None = None
        #: The duration, once all events have been brought here.
        self.seconds: float | None = None
        self._text: list[str] = []
        self.is_stopping = False
        self._thread: threading.Thread | None = None
        self._events: deque[Any] = deque()

    @property
    def is_over(self) -> bool:
        """True once all events have been brought here."""
        return self.seconds is not None

    @property
    def age(self) -> float:
        """Seconds since the start, or the duration of a run that has ended."""
        return clock.now() - self.started if self.seconds is None else self.seconds

    @property
    def text(self) -> str:
        """The text of all responses so far."""
        return "".join(self._text).rstrip("\n")

    def watch(
        self,
        post: Post,
        on_event: Callable[[ChatRun, Any], object],
        on_end: Callable[[ChatRun], object],
    ) -> None:
        """Start a thread that passes every event to *on_event*, through *post*."""

        def deliver() -> None:
            while self._events:
                event = self._events.popleft()
                if isinstance(event, TextDelta):
                    self._text.append(event.text)
                elif isinstance(event, TurnFinished) and self._text:
                    self._text.append("\n")
                on_event(self, event)

        def end() -> None:
            deliver()
            self.seconds = clock.now() - self.started
            on_end(self)

        def work() -> None:
            try:
                for event in self._iterate():
                    if isinstance(event, RunFinished):
                        self.result = event.result
                    self._events.append(event)  # publish first, then look
                    if len(self._events) == 1:
                        post(deliver)  # otherwise a posted one takes this event along
            except BaseException as error:  # the session shows it
                self.error = error
            post(end)

        name = f"syncagent-chat-{id(self):x}"
        self._thread = threading.Thread(target=work, name=name, daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the thread to end; return True if it has.

        Cancellation: *timeout* seconds at most.
        """
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    @abstractmethod
    def _iterate(self) -> Iterator[LoggedEvent]:
        """Yield the events, on the run's thread; raise if the run failed."""

    @abstractmethod
    def stop(self, *, force: bool = False) -> None:
        """Cancel the run; the text so far is kept."""

    def send(self, text: str) -> bool:
        """Pass *text* to the live run; return False if it takes no input."""
        return False

    @property
    def unread_inputs(self) -> tuple[str, ...]:
        """Texts that were sent and that the run has not read."""
        return ()

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The open questions of the run."""
        return ()

    def move_to_background(self) -> None:  # noqa: B027 - a function has no such state
        """Mark the run as one in the background."""


class ChatConversation(ABC):
    """A conversation that the user has in a chat."""

    #: The agent, if it is a conversation with one.
    agent: Agent | None = None

    def __init__(self) -> None:
        self.runs_started = 0

    @abstractmethod
    def start(self, texts: Sequence[str], prompt: str) -> ChatRun:
        """Start a run.

        :param texts: the user message, in parts.
        :param prompt: the part that the user typed.
        """

    @abstractmethod
    def fork(self) -> ChatConversation:
        """Return a conversation that continues without the live run."""

    @property
    @abstractmethod
    def messages(self) -> Sequence[Message]:
        """The messages so far."""

    def cost(self, usage: Any) -> float | None:
        """Return the cost of *usage* if the price is known."""
        return None if self.agent is None else self.agent.model.cost(usage)


# -- with an agent ---------------------------------------------------------------------


class AgentConversation(ChatConversation):
    """A conversation with an agent.

    :param make_prompt: turns the text that the user typed into the parts of a prompt.
    """

    agent: Agent

    def __init__(
        self, agent: Agent, make_prompt: Callable[[str], list[Any]] | None = None
    ) -> None:
        super().__init__()
        self.agent = agent
        self._make_prompt = make_prompt

    def start(self, texts: Sequence[str], prompt: str) -> ChatRun:
        """Start a run; without texts, resume the paused one."""
        parts: list[Any] = list(texts)
        if parts and self._make_prompt is not None:
            parts[-1:] = self._make_prompt(parts[-1])
        handle = self.agent.start(parts or None, buffer=_BUFFER)
        self.runs_started += 1
        return AgentChatRun(prompt, self, handle)

    def fork(self) -> ChatConversation:
        """Return a conversation that continues without the live run."""
        return AgentConversation(self.agent.fork(), self._make_prompt)

    @property
    def messages(self) -> Sequence[Message]:
        """The messages so far."""
        return self.agent.messages


class AgentChatRun(ChatRun):
    """A run of an agent, behind its handle."""

    def __init__(
        self, prompt: str, conversation: ChatConversation, handle: Handle
    ) -> None:
        super().__init__(prompt, conversation)
        self.handle: Final = handle

    def _iterate(self) -> Iterator[LoggedEvent]:
        yield from self.handle.subscribe()
        self.handle.join(_JOIN_SECONDS)
        self.handle.result(_JOIN_SECONDS)

    def stop(self, *, force: bool = False) -> None:
        """Cancel the run; the text so far is kept."""
        self.is_stopping = True
        self.handle.cancel("stopped by the user", force=force)

    def stop_call(self, call_id: str) -> None:
        """Stop one tool call; the run goes on."""
        self.handle.cancel_call(call_id)

    def send(self, text: str) -> bool:
        """Pass *text* to the run, which reads it at the next safe point."""
        try:
            self.handle.send_input(text)
        except ConfigurationError:
            return False  # it has just ended
        return True

    @property
    def unread_inputs(self) -> tuple[str, ...]:
        """Texts that were sent and that the run has not read."""
        return tuple(
            "\n".join(
                block.text for block in message.content if isinstance(block, Text)
            )
            for message in self.handle.pending_inputs
        )

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The open questions of the run."""
        return self.handle.interrupts

    def move_to_background(self) -> None:
        """Mark the run as one in the background."""
        self.handle.background()


# -- with a function -------------------------------------------------------------------


class FunctionConversation(ChatConversation):
    """A conversation with a function that yields events."""

    def __init__(self, function: ChatFunction, history: Sequence[Message] = ()) -> None:
        super().__init__()
        self.function: Final = function
        self.history: tuple[Message, ...] = tuple(history)

    def start(self, texts: Sequence[str], prompt: str) -> ChatRun:
        """Start a call of the function."""
        self.runs_started += 1
        return _FunctionChatRun("\n\n".join(texts), prompt, self)

    def fork(self) -> ChatConversation:
        """Return a conversation that continues without the live run."""
        return FunctionConversation(self.function, self.history)

    @property
    def messages(self) -> Sequence[Message]:
        """The messages so far."""
        return self.history


class _FunctionChatRun(ChatRun):
    """A call of a chat function, on the thread that brings its events."""

    def __init__(
        self, message: str, prompt: str, conversation: FunctionConversation
    ) -> None:
        super().__init__(prompt, conversation)
        self._function_conversation = conversation
        self._message = message
        # The function may keep this list up to date; it counts if there is no result.
        self._history = list(conversation.history)
        self._token = CancelToken()

    def _iterate(self) -> Iterator[LoggedEvent]:
        conversation = self._function_conversation
        try:
            yield from conversation.function(
                self._message, history=self._history, cancel=self._token
            )
        except Cancelled:
            pass  # a user's function may let it through
        finally:
            messages = self._history if self.result is None else self.result.messages
            conversation.history = tuple(messages)

    def stop(self, *, force: bool = False) -> None:
        """Cancel the function's token; the text so far is kept."""
        self.is_stopping = True
        self._token.cancel("stopped by the user")
