"""Input for a run that is busy, kept in order until the run takes it."""

from __future__ import annotations

from collections import deque
from typing import Final

from ..cancel import CancelToken, Mailbox
from ..cancel.once import Once
from ..messages import UserMessage

__all__ = ["Inbox"]

_TAKEN: Final = "taken"
_REFUSED: Final = "refused"


class Inbox:
    """Messages to a run, in order. Any thread may put, the run's thread takes.

    A message that was put is either taken or refused; none is lost in between.
    """

    def __init__(self) -> None:
        self._entries: deque[tuple[UserMessage, Once[str]]] = deque()
        self._bell: Mailbox[bool] = Mailbox()
        self._is_closed = False

    def put(self, message: UserMessage) -> bool:
        """Add a message; return false if it is refused."""
        fate: Once[str] = Once()
        self._entries.append((message, fate))  # publish first, then look
        if self._is_closed and fate.claim(_REFUSED) is _REFUSED:
            return False
        self._bell.put(True)
        return True

    def take(self) -> list[UserMessage]:
        """Take out all messages."""
        taken: list[UserMessage] = []
        while self._entries:
            message, fate = self._entries.popleft()
            if fate.claim(_TAKEN) is _TAKEN:
                taken.append(message)
        return taken

    def take_as_one(self, before: tuple[UserMessage, ...] = ()) -> UserMessage | None:
        """Take out all messages as one; None if there are none.

        :param before: messages to put in front.
        """
        taken = self.take()
        content = tuple(block for each in (*before, *taken) for block in each.content)
        return UserMessage(content) if taken else None

    @property
    def messages(self) -> tuple[UserMessage, ...]:
        """The messages that wait."""
        return tuple(message for message, fate in list(self._entries) if not fate)

    def wait(self, token: CancelToken) -> bool:
        """Wait for a message; return whether there is one.

        Cancellation: ends at once.
        """
        while not self.messages and not token.cancelled:
            self._bell.get(token)
        return bool(self.messages)

    def close_if_empty(self) -> bool:
        """Refuse all later messages, unless one waits; return whether it is closed."""
        self._is_closed = True  # publish first, then look
        self._is_closed = not self.messages
        return self._is_closed

    def close(self) -> None:
        """Refuse all later messages; those that wait stay."""
        self._is_closed = True
