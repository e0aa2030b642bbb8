"""Cancellation: one lock-free token that every wait of a run listens to.

The package imports nothing of syncagent but ``exceptions``: it could be lifted out as a
library of its own. From the inside out:

========================  ============================================================
:mod:`~.clock`            monotonic time, and the one way to wait for it
:mod:`~.once`             a cell that keeps its first value: the one atomic step
:mod:`~.reason`           why a token was cancelled, by whom and when
:mod:`~.deadlines`        timeouts and deadlines as users pass them
:mod:`~.links`            what a cancel reaches: killables, waiting threads
:mod:`~.generation`       one life of a token, and the way of a cancel through it
:mod:`~.threads`          the daemon threads for callbacks and deadlines, per process
:mod:`~.callbacks`        user callbacks
:mod:`~.token`            the token itself
:mod:`~.signal_event`     the token as a :class:`threading.Event`, and the reverse
:mod:`~.waits`            waits for a message, a condition, a moving deadline
:mod:`~.deferred`         cancels that take effect at a later point of the run
:mod:`~.claim`            the first of "cancelled" and "finished" wins
:mod:`~.on_signals`       Ctrl+C and SIGTERM
========================  ============================================================

Guarantees, for every ``cancel()`` in this package:

- It may be called by any thread, a signal handler or ``__del__``, in the middle of any
  other call, and more than once.
- It never blocks, takes no lock, runs no user code and logs nothing.
- No cancel is lost: shared state is always written before the other side is read
  (*publish first, then look*), so of two racing threads at least one sees the other.
"""

from ..exceptions import Origin
from .callbacks import Registration
from .claim import CancelsRun, Receipt, RunClaim, RunSlot, live_runs
from .deferred import CancelMode
from .links import Bell, Killable
from .on_signals import Cancellable, cancel_on_signals
from .reason import CancelReason
from .signal_event import CancelSignal, cancel_on_event
from .token import CancelToken
from .waits import Alarm, Mailbox, Watch

__all__ = [
    "Alarm",
    "Bell",
    "CancelMode",
    "CancelReason",
    "CancelSignal",
    "CancelToken",
    "Cancellable",
    "CancelsRun",
    "Killable",
    "Mailbox",
    "Origin",
    "Receipt",
    "Registration",
    "RunClaim",
    "RunSlot",
    "Watch",
    "cancel_on_event",
    "cancel_on_signals",
    "live_runs",
]
