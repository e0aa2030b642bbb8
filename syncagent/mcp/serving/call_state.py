"""The state of a call between two rounds, which the client keeps for us.

Modern clients have no session: a call that needs an answer ends, and is made again with
the answer and the state. The state is signed, names its call, and expires. It is not
encrypted: it holds nothing but what the same client has sent, and random ids.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
import time
from typing import Any, Final

import msgspec

from ...agent import Agent
from ...interrupts import Interrupt, arguments_key

__all__ = ["CallState", "ParkedRun", "ParkedRuns", "StateSeal", "arguments_digest"]

#: Seconds that a person has for an answer.
LIFETIME: Final = 3600.0
#: Characters of the longest state that is looked at.
_LONGEST: Final = 1 << 20


class CallState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that waits for answers of its client."""

    tool: str
    #: Of the arguments: a state counts for the same call only.
    digest: str
    #: The idempotency key: the same for all rounds of a call.
    key: str
    #: Earlier questions of the tool, with their answers.
    answers: list[tuple[str, Any]] = []
    #: The question that the tool stopped at, and its form.
    question: tuple[str, dict[str, Any] | None] | None = None
    is_approved: bool = False
    #: How many rounds the call has had.
    rounds: int = 0
    #: The id of the paused run of an agent.
    parked: str = ""
    #: Seconds since the epoch.
    expires: float = 0.0


def arguments_digest(arguments: dict[str, Any]) -> str:
    """Return a digest of the arguments of a call."""
    return hashlib.sha256(arguments_key(arguments) or b"").hexdigest()


class StateSeal:
    """Signs states, and opens those that it has signed.

    :param secret: shared by all processes of a server; by default random.
    :param lifetime: seconds for which a state counts.
    """

    def __init__(self, secret: str | bytes | None, lifetime: float = LIFETIME) -> None:
        self._lifetime = lifetime
        text = secrets.token_bytes(32) if secret is None else secret
        raw = text.encode() if isinstance(text, str) else text
        self._key: Final = hashlib.sha256(b"syncagent mcp state " + raw).digest()

    def close(self, state: CallState) -> str:
        """Return *state* as text for the client."""
        fresh = msgspec.structs.replace(state, expires=time.time() + self._lifetime)
        body = msgspec.json.encode(fresh)
        return f"{_text(body)}.{_text(self._sign(body))}"

    def open(self, text: Any) -> CallState:
        """Return the state that the client has sent back.

        :raises ValueError: it is not one of ours, was changed, or is too old.
        """
        if not isinstance(text, str) or len(text) > _LONGEST:
            raise ValueError("requestState is not a state of this server")
        body, _, signature = text.partition(".")
        try:
            raw, signed = _bytes(body), _bytes(signature)
        except ValueError:
            raw = signed = b""
        if not hmac.compare_digest(self._sign(raw), signed):
            raise ValueError("requestState was changed, or is of another server")
        state = msgspec.json.decode(raw, type=CallState)
        if state.expires < time.time():
            raise ValueError("requestState has expired; make the call anew")
        return state

    def _sign(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    padded = text.encode("ascii") + b"=" * (-len(text) % 4)
    return base64.b64decode(padded, altchars=b"-_", validate=True)


class ParkedRun(msgspec.Struct, frozen=True):
    """A paused run of an agent: nothing of it runs."""

    agent: Agent
    questions: tuple[Interrupt, ...]
    expires: float


class ParkedRuns:
    """Paused runs whose clients have been asked; the oldest is dropped first.

    They are in the memory of this process: a run whose client answers to another
    process, or too late, has to be started again.

    :param limit: how many are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()  # held for a moment, never while anything waits
        self._runs: dict[str, ParkedRun] = {}

    def add(self, agent: Agent, questions: tuple[Interrupt, ...]) -> str:
        """Keep a paused run, and return its id."""
        key, now = secrets.token_urlsafe(16), time.time()
        with self._lock:
            for old in [each for each, run in self._runs.items() if run.expires < now]:
                del self._runs[old]
            while len(self._runs) >= self._limit:
                del self._runs[next(iter(self._runs))]
            self._runs[key] = ParkedRun(agent, questions, now + LIFETIME)
        return key

    def take(self, key: str) -> ParkedRun | None:
        """Return a paused run, once."""
        with self._lock:
            return self._runs.pop(key, None)

    def put_back(self, key: str, run: ParkedRun) -> None:
        """Keep a run that was taken for nothing."""
        with self._lock:
            self._runs[key] = run

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._runs.clear()
