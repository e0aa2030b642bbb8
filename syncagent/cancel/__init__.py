"""Cancelling: one lock-free token that every wait of a run listens to.

The package imports nothing of syncagent but ``exceptions`` and ``_clock``: it could be
lifted out as a library of its own. From the inside out:

========================  ============================================================
:mod:`~.once`             a cell whose first value stays, the one atomic step
:mod:`~.again`            work that a signal handler must not leave half done
:mod:`~.reason`           why, by whom and when
:mod:`~.deadlines`        timeouts and deadlines as users give them
:mod:`~.links`            what can hang on a token: killables, waiting threads
:mod:`~.generation`       one life of a token, and a cancel's way through it
:mod:`~.threads`          the daemon threads for callbacks and for deadlines
:mod:`~.services`         those threads per process, remade after a fork
:mod:`~.callbacks`        user callbacks
:mod:`~.family`           the way down from a parent token to a child
:mod:`~.token`            the token itself
:mod:`~.signal_event`     the token as a :class:`threading.Event`
:mod:`~.alarm`            a deadline that moves
:mod:`~.mailbox`          what threads say to one that waits for them, or for a cancel
:mod:`~.watch`            wait until something is so that other threads bring about
:mod:`~.following`        a plain :class:`threading.Event` that cancels a token
:mod:`~.modes`            cancels that let a run go on for a while
:mod:`~.claim`            the first of "cancelled" and "finished" wins
:mod:`~.on_signals`       Ctrl+C and SIGTERM
========================  ============================================================
"""

from ..exceptions import Origin
from .callbacks import Registration
from .claim import Receipt, RunClaim, RunSlot, live_runs
from .deferred import CancelMode
from .links import Bell, Killable
from .on_signals import Cancellable, cancel_on_signals
from .reason import CancelReason
from .signal_event import CancelSignal, follow
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
    "Killable",
    "Mailbox",
    "Origin",
    "Receipt",
    "Registration",
    "RunClaim",
    "RunSlot",
    "Watch",
    "cancel_on_signals",
    "follow",
    "live_runs",
]
