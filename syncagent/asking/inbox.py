"""Input for a run that is busy, kept in order until the run takes it."""

from __future__ import annotations

from collections import deque
from typing import Final

from ..cancel import CancelToken, Mailbox
from ..cancel.once import Once
from ..messages import UserMessage

__all__ = [
    "Inbox",
]

_TAKEN: Final = "taken"


_REFUSED: Final = "refused"


class Inbox:
    """What is said to a run while it is busy, in order. Any thread may put.

    What was put is taken, or was refused; nothing is lost in between.
    """

    def __init__(self) -> None:
        self._entries: deque[tuple[UserMessage, Once[str]]] = deque()
        self._bell: Mailbox[bool] = Mailbox()
        self._is_closed = False

    def put(self, message: UserMessage) -> bool:
        """Add a message; tell whether it will be taken."""
        fate: Once[str] = Once()
        self._entries.append((message, fate))  # publish first, then look
        if self._is_closed and fate.claim(_REFUSED) is _REFUSED:
            return False
        self._bell.put(True)
        return True

    def take(self) -> list[UserMessage]:
        """Return all that was put since the last time."""
        taken: list[UserMessage] = []
        while self._entries:
            message, fate = self._entries.popleft()
            if fate.claim(_TAKEN) is _TAKEN:
                taken.append(message)
        return taken

    def take_as_one(self, before: tuple[UserMessage, ...] = ()) -> UserMessage | None:
        """Return all that was put since the last time, as one message, if anything.

        :param before: what else is said then, and first.
        """
        taken = self.take()
        joined = (*before, *taken)
        content = tuple(block for message in joined for block in message.content)
        return UserMessage(content) if taken else None

    @property
    def messages(self) -> tuple[UserMessage, ...]:
        """What is there."""
        return tuple(message for message, fate in list(self._entries) if not fate)

    def wait(self, token: CancelToken) -> bool:
        """Wait until there is something; tell whether there is.

        Cancellation: ends at once.
        """
        while not self.messages and not token.cancelled:
            self._bell.get(token)
        return bool(self.messages)

    def close(self) -> bool:
        """Refuse what comes from now on, unless something is there; tell which."""
        self._is_closed = True
        self._is_closed = not self.messages
        return self._is_closed

    def shut(self) -> None:
        """Refuse what comes from now on; what is there stays."""
        self._is_closed = True
