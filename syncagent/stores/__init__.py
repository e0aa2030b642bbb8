"""Runs that outlive their process: any process can stop, follow and answer them.

========================  ============================================================
:mod:`~.run_store`        :class:`RunStore`, the face of all this
:mod:`~.records`          what is stored, and what the back ends reply
:mod:`~.backend`          the interface of a back end
:mod:`~.sqlite`           the default: a file, for the processes of one host
:mod:`~.postgres`         a server, for any number of hosts
:mod:`~.sql`              the operations, in the SQL that both share
:mod:`~.keeper`           keeps a run at its checkpoints, and is its gate
:mod:`~.event_log`        events, written in batches and read from any process
:mod:`~.worker`           this process: its lease, its sweeps, its hints
========================  ============================================================
"""

from .event_log import StoredEvents
from .receipts import StoreReceipt
from .records import CancelRecord, StoredError, StoredRun
from .run_store import Enqueue, MakeAgent, RunStore

__all__ = [
    "CancelRecord",
    "Enqueue",
    "MakeAgent",
    "RunStore",
    "StoreReceipt",
    "StoredError",
    "StoredEvents",
    "StoredRun",
]
