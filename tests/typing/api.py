"""Code as users write it; checked by mypy --strict, never run."""

from __future__ import annotations

import threading
from types import FrameType

from syncagent import (
    Cancelled,
    CancelReason,
    CancelToken,
    Origin,
    Registration,
    cancel_on_signals,
    logs,
)
from syncagent.cancel import Killable, Receipt, RunSlot
from syncagent.testing import FakeClock, Gate, no_leaks


def tokens() -> None:
    token: CancelToken = CancelToken(timeout=1.5)
    child: CancelToken = token.child(deadline=5)
    linked: CancelToken = CancelToken.any_of(token, child)
    first: bool = linked.cancel("why", origin="remote")
    reason: CancelReason | None = token.reason
    text: str = token.reason or ""
    origin: Origin | None = token.origin
    left: float | None = token.remaining()
    event: threading.Event = token.signal
    woken: bool = token.wait(5) and event.wait(1.0)
    print(first, reason, text, origin, left, woken)


def blocking(token: CancelToken) -> str:
    try:
        token.sleep(1)
        token.checkpoint()
    except Cancelled as stop:
        return f"{stop.origin}: {stop.reason}"
    return "done"


def callbacks(token: CancelToken, lock: threading.Lock) -> None:
    registration: Registration = token.on_cancel(lock.release)
    taken_back: bool = registration.close()
    with token.on_cancel(lambda: print("cancelled")) as again:
        print(again, taken_back)


def signals(slot: RunSlot) -> None:
    with cancel_on_signals(CancelToken(), slot) as token:
        token.wait()


def handler(signum: int, frame: FrameType | None) -> None:
    receipt: Receipt = RunSlot().cancel("signal", origin="signal")
    if receipt and receipt.first:
        print(receipt.phase, receipt.latency, receipt.wait(timeout=1))


class Bell(Killable):
    def fire(self) -> None: ...


def logging_set_up() -> None:
    with logs.configure("agent.log", json=True):
        pass


def testing() -> None:
    gate = Gate()
    with no_leaks(), FakeClock() as clock:
        clock.advance(1)
        gate.open()
