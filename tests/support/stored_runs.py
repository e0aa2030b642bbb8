"""Runs, states, events and leases for the back ends of a store."""

import threading
import time

import msgspec

from support.threads import LONG
from syncagent.conversation.state import Delta, StoredMessage
from syncagent.exceptions import StoreUnavailable
from syncagent.interrupts import Approval, ApprovalRequest
from syncagent.messages import user_message
from syncagent.stores.records import (
    CancelRecord,
    ConversationChange,
    EventBatch,
    Lease,
    NewRun,
    StoredAnswer,
    StoredEnd,
    conversation_key,
)

#: The state of an agent without messages and without an open run.
TAIL = b'{"format":"syncagent.agent","version":1}'
DONE = StoredEnd("done")
CANCELLED = StoredEnd("cancelled")
YES = StoredAnswer(Approval(True)).encode()
NO = StoredAnswer(Approval(False)).encode()


def new_run(
    name="a", *, owner="anna", conversation="", unfollowed=None, seconds_left=None
):
    """Return a run to be added."""
    id = f"public-{name}"
    return NewRun(
        id=id,
        run_id=f"run-{name}",
        owner=owner,
        agent="billing",
        conversation=conversation,
        key=conversation_key(owner, conversation, id),
        labels=b'{"queue":"agents"}',
        prompt=msgspec.json.encode(user_message("Charge all three.")),
        seconds_left=seconds_left,
        unfollowed_seconds=unfollowed,
    )


def change(id="chat", *, owner="anna", nonce="c1", **fields):
    """Return a change of a conversation."""
    key = conversation_key(owner, id, "")
    return ConversationChange(key=key, id=id, owner=owner, nonce=nonce, **fields)


def lease(worker="w1", seconds=30.0):
    """Return the lease of a process."""
    return Lease(worker, "host", 4711, "1.0", seconds)


def cancel(reason="enough", *, mode="now", nonce="c1"):
    """Return a cancel."""
    return CancelRecord(reason, "user", mode, "anna", nonce)


def delta(first=0, *texts, tail=TAIL):
    """Return a part of a state: messages with these texts, the first with a number."""
    messages = tuple(
        StoredMessage(msgspec.json.encode(user_message(text))) for text in texts
    )
    return Delta(first, messages, tail)


def texts_of(messages):
    """Return the texts of stored messages."""
    return [
        msgspec.json.decode(message.body)["content"][0]["text"] for message in messages
    ]


def batch(first=1, *lines, name="a", attempt=1):
    """Return events of a run, the first with a number."""
    return EventBatch(f"run-{name}", attempt, first, [line.encode() for line in lines])


def question(id="q1"):
    """Return a question."""
    return ApprovalRequest(id, call_id=f"call-{id}", tool="charge", arguments={})


def running(backend, name="a", *, worker="w1", seconds=30.0, **settings):
    """Add a run, and have a worker claim it; return its id."""
    run = new_run(name, **settings)
    assert backend.add(run, None) == "added"
    backend.beat(lease(worker, seconds))
    assert backend.claim(run.id, worker, f"n-{name}").attempt == 1
    return run.id


def waiting(backend, name="a", *ids, answer_seconds=None, **settings):
    """Add a run that waits for answers to these questions; return its id."""
    id = running(backend, name, **settings)
    assert park(backend, id, *(ids or ("q1",)), answer_seconds=answer_seconds).is_stored
    return id


def park(backend, id, *ids, attempt=1, events=None, answer_seconds=None, **more):
    """Let a run wait for answers."""
    questions = msgspec.json.encode([question(each) for each in ids])
    return backend.park(
        *(id, attempt, delta(0, "hello"), questions, events),
        seconds_left=7.5,
        answer_seconds=answer_seconds,
        **more,
    )


def dead(backend, name="a", **settings):
    """Add a run whose worker has died; return its id."""
    id = running(backend, name, worker=f"dead-{name}", **settings)
    backend.leave(f"dead-{name}")
    return id


def persist(operation):
    """Do an operation until the store is available, as callers do; return its value."""
    end = time.monotonic() + LONG
    pause = threading.Event()
    while True:
        try:
            return operation()
        except StoreUnavailable:
            assert time.monotonic() < end, "the store never became available"
            pause.wait(0.001)
