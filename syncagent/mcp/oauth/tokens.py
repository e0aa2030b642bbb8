"""Tokens and registrations, and the stores that keep them.

Guarantees:

- Secrets are not in any ``repr``, and are masked in logs from the moment they are known
  (:func:`~syncagent.logs.hide`).
- ``locked()`` lets one holder in per key, of all threads that share a store; a file
  store does the same for processes. A wait for it ends with its token.
- A forked child finds no lock taken by a thread that it does not have.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NoReturn, Protocol, TypeVar

import msgspec

from ..._redaction import hide, unhide
from ...cancel import CancelToken, Watch
from ...cancel.once import finish_despite_signals
from ...exceptions import ConfigurationError

__all__ = [
    "Client",
    "Grant",
    "MemoryTokens",
    "TokenStore",
    "Turns",
    "hide_secret",
    "read_entry",
]

#: How long before its end a token is renewed, in seconds, but at most for a tenth of
#: its life: clocks differ, and requests take time.
_SKEW: Final = 60.0
#: Ten years: more than any token lives, and more than some clocks can show.
_LONGEST: Final = 10 * 365 * 86400.0


#: How many secrets are masked in logs; a service that renews its tokens for months
#: would otherwise mask thousands that have ended long ago.
_HIDDEN: Final = 256
_known: Final[dict[str, None]] = {}


def hide_secret(value: str) -> None:
    """Mask *value* in logs, until many newer secrets are known."""
    if len(value.strip()) < 8:  # masking it would damage ordinary text
        return
    _known.pop(value, None)
    _known[value] = None  # at the end: it is in use
    hide(value)
    for oldest in list(_known)[: max(0, len(_known) - _HIDDEN)]:
        _known.pop(oldest, None)
        unhide(oldest)


class _Secret(msgspec.Struct, frozen=True, kw_only=True):
    """A value with secrets: neither shown nor pickled."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {getattr(self, 'issuer', '')}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} holds secrets and is not pickled")

    def __post_init__(self) -> None:
        for name in ("access_token", "refresh_token", "client_secret"):
            value = getattr(self, name, None)
            if isinstance(value, str):
                hide_secret(value)


class Client(_Secret, frozen=True, kw_only=True):
    """This program as one authorization server knows it."""

    issuer: str
    client_id: str
    client_secret: str | None = None
    #: How it proves itself at the token endpoint.
    auth_method: str = "none"
    #: The redirect URI that it was registered with.
    redirect_uri: str = ""
    #: When the secret ends, in seconds since 1970; 0 for never.
    expires_at: float = 0.0

    @property
    def is_expired(self) -> bool:
        """True if its secret has ended."""
        return bool(self.expires_at) and self.expires_at <= time.time()


class Grant(_Secret, frozen=True, kw_only=True):
    """An access token, and all that is needed to renew it."""

    #: The URL of the MCP server.
    server: str
    issuer: str
    #: The ``resource`` parameter, "" for none.
    resource: str
    client: Client
    token_endpoint: str
    revocation_endpoint: str = ""
    access_token: str
    refresh_token: str | None = None
    #: In seconds since 1970, ``None`` if unknown.
    expires_at: float | None = None
    #: When a token that is about to expire is renewed.
    renew_at: float | None = None
    #: All scopes that were asked for or granted.
    scopes: tuple[str, ...] = ()

    @property
    def header(self) -> str:
        """The value of the ``Authorization`` header."""
        return f"Bearer {self.access_token}"

    @property
    def is_due(self) -> bool:
        """True if it is time to renew it."""
        return self.renew_at is not None and self.renew_at <= time.time()

    @property
    def is_expired(self) -> bool:
        """True if its time is over."""
        return self.expires_at is not None and self.expires_at <= time.time()

    @staticmethod
    def times(expires_in: object) -> tuple[float | None, float | None]:
        """Return when a token ends that lives so many seconds, and when to renew it.

        :param expires_in: the server's word for it; often missing or odd.
        """
        try:
            seconds = float(expires_in)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return None, None
        if isinstance(expires_in, bool) or math.isnan(seconds):
            return None, None
        seconds = min(max(seconds, 0.0), _LONGEST)
        end = time.time() + seconds
        return end, end - min(_SKEW, seconds / 10)


class TokenStore(Protocol):
    """Keeps tokens and registrations: JSON text by key.

    The text has secrets in it. Implement it for a database or a keyring; entries of
    different users belong in different stores.
    """

    def load(self, key: str) -> str | None:
        """Return the entry, or ``None``."""

    def save(self, key: str, entry: str) -> None:
        """Keep *entry*, in place of the one before it, all of it or nothing."""

    def delete(self, key: str) -> None:
        """Forget the entry, if there is one."""

    def locked(self, key: str, token: CancelToken) -> AbstractContextManager[None]:
        """Return a block that one holder at a time is in, among all users of *key*.

        Cancellation: the wait ends at once.
        """


class MemoryTokens:
    """Keep tokens for as long as the process lives. Safe for any number of threads."""

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}
        self._turns = Turns()

    def load(self, key: str) -> str | None:
        """Return the entry, or ``None``."""
        return self._entries.get(key)

    def save(self, key: str, entry: str) -> None:
        """Keep *entry*."""
        self._entries[key] = entry

    def delete(self, key: str) -> None:
        """Forget the entry, if there is one."""
        self._entries.pop(key, None)

    def locked(self, key: str, token: CancelToken) -> AbstractContextManager[None]:
        """Return a block that one thread at a time is in.

        Cancellation: the wait ends at once.
        """
        return self._turns.take(key, token)

    def __repr__(self) -> str:
        return f"<MemoryTokens with {len(self._entries)} entries>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("MemoryTokens hold secrets and are not pickled")


class Turns:
    """Locks by key whose waits end with a token."""

    def __init__(self) -> None:
        # By process: a forked child inherits the entries, not the threads.
        self._holders: dict[tuple[int, str], object] = {}
        self._watch = Watch()

    @contextmanager
    def take(self, key: str, token: CancelToken) -> Iterator[None]:
        """Wait for the turn of this thread, and give it back after the block.

        Cancellation: ends at once.
        """
        own, place = object(), (os.getpid(), key)

        def give_back() -> None:
            if self._holders.get(place) is own:
                del self._holders[place]  # publish first, then wake
            self._watch.wake()

        try:
            try:
                # setdefault() is one step: the first holder stays until it is gone.
                self._watch.wait(
                    lambda: self._holders.setdefault(place, own) is own, token
                )
                token.checkpoint()
                yield
            finally:
                finish_despite_signals(give_back)
        finally:
            give_back()  # again: a signal handler may have raised before the first one


_E = TypeVar("_E", bound=_Secret)


def read_entry(store: TokenStore, key: str, kind: type[_E]) -> _E | None:
    """Return the entry of *store* as a *kind*.

    :raises ConfigurationError: it is damaged.
    """
    text = store.load(key)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeError):
        pass  # its message would show a part of the entry
    raise ConfigurationError(
        f"the entry {key!a} of the token store is damaged; log out and in again"
    )
