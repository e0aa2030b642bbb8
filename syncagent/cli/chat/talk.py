"""A conversation, and the work that goes on in it: with an agent, or with a function.

Work is on threads of its own; what happens in it is brought to the thread of the
screen, in order, and nothing of it is lost.
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
from ...messages import Message, Text, UserMessage
from ...result import RunResult

__all__ = ["AgentTalk", "AgentWork", "ChatFunction", "FunctionTalk", "Talk", "Work"]

#: How many events may lie between a run and the screen; each is soon taken.
_BUFFER: Final = 100_000
#: Seconds that the thread which brings events has, when there are no more.
_LAST: Final = 5.0

#: ``function(message, history=..., cancel=...)``, which yields events.
ChatFunction = Callable[..., Iterable[Any]]
#: Where to do something: :meth:`syncagent.cli.chat.screen.Screen.post`.
Post = Callable[[Callable[[], object]], object]


class Work(ABC):
    """What comes of one thing that was said; all on the screen's thread."""

    def __init__(self, prompt: str, talk: Talk) -> None:
        #: What was said.
        self.prompt: Final = prompt
        #: The conversation that it belongs to.
        self.talk = talk
        self.began: Final = clock.now()
        #: Its number, if it is in the background.
        self.number = 0
        #: The conversation that went on without it.
        self.aside: Talk | None = None
        #: What the last run came to, or what went wrong.
        self.result: RunResult | None = None
        self.error: BaseException | None = None
        self.seconds: float | None = None
        self._words: list[str] = []
        self.is_stopping = False
        self._thread: threading.Thread | None = None
        self._news: deque[Any] = deque()

    @property
    def is_over(self) -> bool:
        """Has all of it been brought here?"""
        return self.seconds is not None

    @property
    def age(self) -> float:
        """How many seconds it has taken, up to now or in all."""
        return clock.now() - self.began if self.seconds is None else self.seconds

    @property
    def text(self) -> str:
        """All that the model has said in it."""
        return "".join(self._words).rstrip("\n")

    def follow(
        self, post: Post, heard: Callable[[Work, Any], object], over: Callable[..., Any]
    ) -> None:
        """Have *heard* called with every event, and *over* at the end."""

        def bring() -> None:
            while self._news:
                event = self._news.popleft()
                if isinstance(event, TextDelta):
                    self._words.append(event.text)
                elif isinstance(event, TurnFinished) and self._words:
                    self._words.append("\n")
                heard(self, event)

        def end() -> None:
            bring()
            self.seconds = clock.now() - self.began
            over(self)

        def work() -> None:
            try:
                for event in self._events():
                    if isinstance(event, RunFinished):
                        self.result = event.result
                    self._news.append(event)  # publish first, then look
                    if len(self._news) == 1:
                        post(bring)  # else one is on its way, and takes this along
                self._conclude()
            except BaseException as error:  # whatever it is, it is shown
                self.error = error
            post(end)

        name = f"syncagent-chat-{id(self):x}"
        self._thread = threading.Thread(target=work, name=name, daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the end of it; return whether it has ended.

        Cancellation: *timeout* seconds at most.
        """
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    @abstractmethod
    def _events(self) -> Iterator[LoggedEvent]:
        """Yield what happens, on the thread that brings it."""

    @abstractmethod
    def _conclude(self) -> None:
        """Raise what went wrong, if something did."""

    @abstractmethod
    def stop(self, *, force: bool = False) -> None:
        """End it, at once; what was said is kept."""

    def send(self, text: str) -> bool:
        """Say something to it while it goes on; false if it does not listen."""
        return False

    @property
    def unheard(self) -> tuple[str, ...]:
        """What was sent and not heard."""
        return ()

    @property
    def questions(self) -> tuple[Interrupt, ...]:
        """What it waits for."""
        return ()

    def leave(self) -> None:  # noqa: B027 - not everything has to know
        """Have it count as sent to the background."""


class Talk(ABC):
    """A conversation."""

    #: If it is one with an agent.
    agent: Agent | None = None

    def __init__(self) -> None:
        #: How often something was said.
        self.times_said = 0

    @abstractmethod
    def start(self, said: Sequence[str], prompt: str) -> Work:
        """Begin to say something.

        :param said: all of it.
        :param prompt: what of it the user has typed.
        """

    @abstractmethod
    def fork(self) -> Talk:
        """Return one that goes on without the work that is under way."""

    @property
    @abstractmethod
    def messages(self) -> Sequence[Message]:
        """What was said up to now."""

    def cost(self, usage: Any) -> float | None:
        """Return what tokens cost, if that is known."""
        return None if self.agent is None else self.agent.model.cost(usage)


# -- with an agent ---------------------------------------------------------------------


class AgentTalk(Talk):
    """A conversation with an agent.

    :param phrase: returns what the agent is told when the user says something, if that
        is more than the words.
    """

    agent: Agent

    def __init__(
        self, agent: Agent, phrase: Callable[[str], list[Any]] | None = None
    ) -> None:
        super().__init__()
        self.agent = agent
        self._phrase = phrase

    def start(self, said: Sequence[str], prompt: str) -> Work:
        """Begin to say something; without words, go on with what waits."""
        told: list[Any] = list(said)
        if told and self._phrase is not None:
            told[-1:] = self._phrase(told[-1])
        handle = self.agent.start(told or None, buffer=_BUFFER)
        self.times_said += 1
        return AgentWork(prompt, self, handle)

    def fork(self) -> Talk:
        """Return one that goes on without the work that is under way."""
        return AgentTalk(self.agent.fork(), self._phrase)

    @property
    def messages(self) -> Sequence[Message]:
        """What was said up to now."""
        return self.agent.messages


class AgentWork(Work):
    """A run in a handle."""

    def __init__(self, prompt: str, talk: Talk, handle: Handle) -> None:
        super().__init__(prompt, talk)
        self.handle: Final = handle

    def _events(self) -> Iterator[LoggedEvent]:
        return self.handle.subscribe()

    def _conclude(self) -> None:
        self.handle.join(_LAST)
        self.handle.result(_LAST)

    def stop(self, *, force: bool = False) -> None:
        """End it, at once; what was said is kept."""
        self.is_stopping = True
        self.handle.cancel("stopped by the user", force=force)

    def send(self, text: str) -> bool:
        """Say something to it; it is heard at the next safe point."""
        try:
            self.handle.send_input(text)
        except ConfigurationError:
            return False  # it has just ended
        return True

    @property
    def unheard(self) -> tuple[str, ...]:
        """What was sent and not heard."""
        return tuple(map(_words, self.handle.pending_inputs))

    @property
    def questions(self) -> tuple[Interrupt, ...]:
        """What it waits for."""
        return self.handle.interrupts

    def leave(self) -> None:
        """Have it count as sent to the background."""
        self.handle.background()


def _words(message: UserMessage) -> str:
    return "\n".join(block.text for block in message.content if isinstance(block, Text))


# -- with a function -------------------------------------------------------------------


class FunctionTalk(Talk):
    """A conversation with a function that yields events."""

    def __init__(self, function: ChatFunction, history: Sequence[Message] = ()) -> None:
        super().__init__()
        self.function: Final = function
        self.history: tuple[Message, ...] = tuple(history)

    def start(self, said: Sequence[str], prompt: str) -> Work:
        """Begin to say something."""
        self.times_said += 1
        return _FunctionWork("\n\n".join(said), prompt, self)

    def fork(self) -> Talk:
        """Return one that goes on without the work that is under way."""
        return FunctionTalk(self.function, self.history)

    @property
    def messages(self) -> Sequence[Message]:
        """What was said up to now."""
        return self.history


class _FunctionWork(Work):
    """A call of a function, on the thread that brings its events."""

    def __init__(self, said: str, prompt: str, talk: FunctionTalk) -> None:
        super().__init__(prompt, talk)
        self._function_talk = talk
        self._said = said
        #: A list: what keeps it up to date does so also where there is no result.
        self._history = list(talk.history)
        self._token = CancelToken()

    def _events(self) -> Iterator[LoggedEvent]:
        talk = self._function_talk
        try:
            yield from talk.function(
                self._said, history=self._history, cancel=self._token
            )
        except Cancelled:
            pass  # a function of somebody's own may let it through
        finally:
            ended = self._history if self.result is None else self.result.messages
            talk.history = tuple(ended)

    def _conclude(self) -> None:
        pass  # what it raises comes with its events

    def stop(self, *, force: bool = False) -> None:
        """End it, at once; what was said is kept."""
        self.is_stopping = True
        self._token.cancel("stopped by the user")
