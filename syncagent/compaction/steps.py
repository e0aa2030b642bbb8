"""The protocol of a compaction, and its settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from .._checks import check_number
from ..cancel import CancelToken
from ..exceptions import ConfigurationError
from ..messages import Message

__all__ = ["Compaction", "Compactor", "Room"]

#: The fractions of the context window at which a compaction begins and ends.
_AT: Final = 0.8
_TARGET: Final = 0.5


class Room(Protocol):
    """The run, as a step of a compaction sees it."""

    @property
    def window(self) -> int | None:
        """The context window of the model in tokens, if it is known."""

    @property
    def target(self) -> int:
        """The number of tokens that the next request should have at most."""

    @property
    def start(self) -> int:
        """The number of the first message of the run; it is the run's prompt."""

    @property
    def token(self) -> CancelToken:
        """The token of the run."""

    def size(self, messages: Sequence[Message]) -> int:
        """Return how many tokens a request with *messages* has, about.

        With the system prompt and the tools, by the usage that was reported last.
        """

    def ask(
        self,
        prompt: str,
        *,
        system: str = "",
        model: Any = None,
        max_tokens: int | None = None,
    ) -> str:
        """Ask a model, and return its text. The run is charged for it.

        Cancellation: ends at once.

        :param model: a model or its name; by default that of the run.
        """


class Compactor(Protocol):
    """A step of a compaction: any object with this method."""

    def compact(
        self, messages: Sequence[Message], room: Room
    ) -> Sequence[Message] | None:
        """Return a shorter conversation, or None if this step cannot help.

        Called on the thread of the run. It must not change the messages, but may leave
        calls without results, and the like: the conversation is repaired afterwards.
        """


class Compaction:
    """Settings of ``Agent(compaction=...)``.

    The steps are taken in order until the conversation is below the target, and the new
    conversation takes the place of the old one in one step. If it is still too long
    after the last step, long results lose their middle.

    :param steps: cheap ones first, such as ``ClearResults(), Summarize()``.
    :param at: the fraction of the context window at which it begins. Less if the
        response may be long: the model's ``max_tokens`` has to fit in as well.
    :param target: the fraction that should be left over.
    :param window: the context window in tokens, in place of that of the model. If
        neither is known, it begins when the provider says that the conversation is too
        long.
    :raises ConfigurationError: there is no step, or a number is wrong.
    """

    def __init__(
        self,
        *steps: Compactor,
        at: float = _AT,
        target: float = _TARGET,
        window: int | None = None,
    ) -> None:
        if not steps:
            raise ConfigurationError(
                "a compaction needs a step, such as ClearResults() or Summarize()"
            )
        for step in steps:
            if isinstance(step, type):
                raise ConfigurationError(
                    "a compaction takes instances, not classes; write "
                    f"{step.__name__}()"
                )
            if not callable(getattr(step, "compact", None)):
                raise ConfigurationError(
                    "a step of a compaction must have the method compact(messages, "
                    f"room); got {step!r:.80}"
                )
        for name, fraction in (("at", at), ("target", target)):
            check_number(name, fraction, is_positive=True, maximum=1)
        if target >= at:
            raise ConfigurationError(
                f"target must be below at; got target={target!r} and at={at!r}"
            )
        check_number(
            "window", window, is_positive=True, is_integer=True, allow_none=True
        )
        self.steps: Final = steps
        self.at: Final = at
        self.target: Final = target
        self.window: Final = window

    @classmethod
    def of(cls, compaction: Any) -> Compaction | None:
        """Return the value of a ``compaction=`` argument.

        :param compaction: settings, a step, a list of steps, or None.
        :raises ConfigurationError: it is something else.
        """
        if compaction is None or isinstance(compaction, cls):
            return compaction
        is_list = isinstance(compaction, Iterable) and not isinstance(compaction, str)
        return cls(*compaction) if is_list else cls(compaction)

    def __repr__(self) -> str:
        names = ", ".join(type(step).__name__ for step in self.steps)
        return f"<Compaction {names}>"
