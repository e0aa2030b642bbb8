"""Runs that outlive their process: any process can stop, follow and answer them.

==========================  ==========================================================
for programs
:mod:`~.run_store`          :class:`RunStore`: submit, cancel, follow and answer runs
:mod:`~.settings`           its numbers, checked
:mod:`~.submission`         the arguments of ``submit()``
:mod:`~.answers`            checks answers before they are stored
:mod:`~.receipts`           :class:`StoreReceipt`, the result of ``cancel()``
:mod:`~.conversations`      :class:`StoredConversation`: messages that runs share
:mod:`~.inbox`              open questions of all runs, and the record of answers
:mod:`~.event_log`          events: written in batches, read by any process
this process
:mod:`~.archive`            looks at what is kept, and deletes it
:mod:`~.process`            opens the store when it is first needed, and tries again
:mod:`~.worker`             its lease, its runs, its sweeps, its hints
:mod:`~.followers`          the runs that it follows
:mod:`~.deliveries`         hands runs to threads, or to an engine
:mod:`~.threads`            the threads that work on runs
:mod:`~.working`            drives one run that was claimed
:mod:`~.keeper`             the checkpoints of one run, and its gate
:mod:`~.lanes`              threads that wait for a database, so that no run does
:mod:`~.lifetimes`          closes stores at exit, and starts over after a fork
the database
:mod:`~.backend`            the interface of a back end
:mod:`~.records`            the records that a store and its back ends exchange
:mod:`~.urls`               finds the back end for a URL
:mod:`~.schema`             the tables, and their migrations
:mod:`~.sql`                the operations that write, in SQL for both back ends
:mod:`~.reader`             those that only look
:mod:`~.sweeper`            those that find runs without a worker, and old ones
:mod:`~.sql_conversations`  those on conversations
:mod:`~.sql_inbox`          those on questions and answers of all runs
:mod:`~.unheld`             ends and recovers runs that no worker has
:mod:`~.rows`               turns records into rows, and back
:mod:`~.sqlite`             the default: a file, for the processes of one host
:mod:`~.datagrams`          the hints between them
:mod:`~.postgres`           a server, for any number of hosts
:mod:`~.thread_connection`  a connection to it, which other threads can cut
==========================  ==========================================================
"""

from .conversations import StoredConversation
from .event_log import StoredEvents
from .inbox import AnswerKind, ApproverOf, AuditEntry, InboxEntry
from .receipts import StoreReceipt
from .records import CancelRecord, StoredAnswer, StoredError, StoredRun
from .run_store import Enqueue, MakeAgent, RunStore

__all__ = [
    "AnswerKind",
    "ApproverOf",
    "AuditEntry",
    "CancelRecord",
    "Enqueue",
    "InboxEntry",
    "MakeAgent",
    "RunStore",
    "StoreReceipt",
    "StoredAnswer",
    "StoredConversation",
    "StoredError",
    "StoredEvents",
    "StoredRun",
]
