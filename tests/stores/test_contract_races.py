"""Every back end: the database decides all races, between threads and processes.

On PostgreSQL no operation fails in them: transactions do not wait for each other in a
circle.
"""

import json
import os
from functools import partial

import pytest
from support.processes import fork
from support.stored_runs import (
    CANCELLED,
    DONE,
    NO,
    YES,
    batch,
    cancel,
    dead,
    delta,
    lease,
    new_run,
    park,
    persist,
    running,
    texts_of,
    waiting,
)
from support.threads import together

#: How often a race is run; the long form is ``stress``.
ROUNDS = [
    pytest.param(12, marks=pytest.mark.slow),
    pytest.param(400, marks=pytest.mark.stress),
]
CROWD = 6


def at_once(connected, *operations):
    """Do operations at once, each on a thread with a connection of its own.

    :return: their replies, in order.
    """
    replies = [None] * len(operations)

    def work(number, backend, operation):
        replies[number] = insist(backend, partial(operation, backend))

    backends = [connected() for _ in operations]
    for backend in backends:
        backend.read("")  # connected, so that they really race
    together(
        *(
            partial(work, number, backend, operation)
            for number, (backend, operation) in enumerate(
                zip(backends, operations, strict=True)
            )
        )
    )
    for backend in backends:
        backend.close()
    return replies


def insist(backend, operation):
    """Do an operation; SQLite fails at once where another process writes."""
    return operation() if backend.may_block else persist(operation)


def in_processes(connected, count, operation):
    """Do an operation in processes of their own, at once; return their replies."""
    gate, start = os.pipe()
    children = []
    for number in range(count):
        reply, writable = os.pipe()
        pid = fork()
        if not pid:
            try:
                os.close(start)
                backend = connected()
                insist(backend, lambda b=backend: b.read(""))
                os.read(gate, 1)
                value = insist(backend, lambda b=backend, n=number: operation(b, n))
                os.write(writable, json.dumps(value).encode())
            finally:
                os._exit(0)
        os.close(writable)
        children.append((pid, reply))
    os.close(gate)
    os.close(start)
    replies = []
    for pid, reply in children:
        with os.fdopen(reply) as pipe:
            replies.append(json.loads(pipe.read()))
        os.waitpid(pid, 0)
    return replies


# -- the first wins ----------------------------------------------------------------


def test_one_run_is_added_to_a_conversation(connected):
    """Of six at once, with and without a limit, one is added."""
    replies = at_once(
        connected,
        *(
            lambda store, n=n: store.add(
                new_run(str(n), conversation="chat"), 9 if n % 2 else None
            )
            for n in range(CROWD)
        ),
    )
    assert sorted(replies) == ["added"] + ["busy"] * (CROWD - 1)


@pytest.mark.parametrize("max_live", [None, 1])
def test_one_id_is_added_once(connected, max_live):
    """Of six at once one is added; the others know it, and are not told "busy"."""
    replies = at_once(
        connected, *[lambda store: store.add(new_run(), max_live)] * CROWD
    )
    assert sorted(replies) == ["added"] + ["known"] * (CROWD - 1)


def test_an_owner_never_has_too_many(connected):
    """Of six processes that add a run at once, three have room."""
    replies = in_processes(
        connected, CROWD, lambda store, n: store.add(new_run(str(n)), 3)
    )
    assert sorted(replies) == ["added"] * 3 + ["no room"] * (CROWD - 3)


def test_one_worker_gets_a_run(backend, connected):
    """Of six processes that claim it at once."""
    backend.add(new_run(), None)
    for n in range(CROWD):
        backend.beat(lease(f"w{n}"))
    backend.close()
    replies = in_processes(
        connected,
        CROWD,
        lambda store, n: store.claim("public-a", f"w{n}", f"n{n}") is not None,
    )
    assert sum(replies) == 1
    assert connected().read("public-a").attempt == 1


def test_one_sweep_hands_a_run_out(backend, connected):
    """Ten runs of dead workers, four sweeps at once: each run is handed out once."""
    ids = [dead(backend, str(n)) for n in range(10)]
    replies = at_once(connected, *[lambda store: store.recover(10, 5).ids] * 4)
    assert sorted(id for reply in replies for id in reply) == ids
    assert all(backend.read(id).crashes == 1 for id in ids)


def test_one_answer_is_taken(backend, connected):
    """Of six at once; and one caller hands the run to a worker."""
    waiting(backend)
    replies = at_once(
        connected,
        *(
            lambda store, n=n: store.answer(
                "public-a", {"q1": YES if n % 2 else NO}, "", f"n{n}"
            )
            for n in range(CROWD)
        ),
    )
    assert sorted(reply.statuses["q1"] for reply in replies) == [
        *["over"] * (CROWD - 1),
        "taken",
    ]
    assert sum(reply.is_ready for reply in replies) == 1


def test_the_last_of_two_answers_makes_the_run_ready(backend, connected):
    """Two questions are answered at once: one caller hands the run out."""
    for n in range(5):
        waiting(backend, str(n), "q1", "q2")
        replies = at_once(
            connected,
            *(
                lambda store, q=q, n=n: store.answer(f"public-{n}", {q: YES}, "", q)
                for q in ("q1", "q2")
            ),
        )
        assert sum(reply.is_ready for reply in replies) == 1
        assert backend.read(f"public-{n}").state == "queued"


@pytest.mark.parametrize("state", [running, waiting, dead])
def test_one_cancel_is_the_first(backend, connected, state):
    """Of six at once; all are told of it, and that the run was alive or had ended."""
    state(backend)
    replies = at_once(
        connected,
        *(
            lambda store, n=n: store.cancel("public-a", cancel(nonce=f"c{n}"))
            for n in range(CROWD)
        ),
    )
    (first,) = (reply for reply in replies if reply.is_first)
    assert {reply.cancel.nonce for reply in replies} == {first.cancel.nonce}


# -- a cancel against everything ---------------------------------------------------

OPPONENTS = {
    "finish": (running, lambda store, id: store.finish(id, 1, DONE, delta(), None)),
    "end as cancelled": (
        running,
        lambda store, id: store.finish(id, 1, CANCELLED, None, batch(1, "{}")),
    ),
    "park": (running, lambda store, id: park(store, id, "q1")),
    "release": (running, lambda store, id: store.release(id, 1, is_urgent=True)),
    "claim": (
        lambda store, name: store.add(new_run(name), None),
        lambda store, id: store.claim(id, "w1", "n"),
    ),
    "claim of a dead worker's": (dead, lambda store, id: store.claim(id, "w1", "n2")),
    "recover": (dead, lambda store, id: store.recover(9, 5)),
    "give up": (dead, lambda store, id: store.recover(9, 1)),
    "answer": (waiting, lambda store, id: store.answer(id, {"q1": YES}, "", "n")),
}


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("name", OPPONENTS)
def test_a_receipt_tells_the_truth(backend, connected, name, rounds):
    """A cancel and another operation at once: true means that the end is cancelled."""
    prepare, operation = OPPONENTS[name]
    backend.beat(lease("w1"))
    first, second = connected(), connected()
    for n in range(rounds):
        prepare(backend, str(n))
        id, reply = f"public-{n}", []
        together(
            lambda id=id: insist(first, lambda: operation(first, id)),
            lambda id=id, reply=reply: reply.append(
                insist(second, lambda: second.cancel(id, cancel(nonce=id)))
            ),
        )
        run = backend.read(id)
        if run.is_live:  # a worker has it, and cannot end it otherwise
            assert reply[0].is_live
            assert run.state == "running"
            assert backend.checkpoint(id, run.attempt, None, is_gate=True).cancel
            assert not backend.finish(id, run.attempt, DONE, None, None).is_stored
            assert backend.finish(id, run.attempt, CANCELLED, None, None).is_stored
            run = backend.read(id)
        if reply[0].is_live:
            assert run.state == "cancelled"
        else:
            assert run.state == "cancelled" or run.cancel is None
        assert reply[0].is_first == reply[0].is_live


def test_no_gate_opens_after_a_cancel(backend, connected):
    """A tool that is recorded as begun is in the receipt, or its gate was closed."""
    first, second = connected(), connected()
    for n in range(12):
        id = running(backend, str(n))
        replies = {}

        def gate(id=id, replies=replies):
            replies["gate"] = insist(
                first,
                lambda: first.checkpoint(
                    id, 1, delta(0, "turn"), begun=["call-1"], is_gate=True
                ),
            )

        def stop(id=id, replies=replies):
            replies["cancel"] = insist(second, lambda: second.cancel(id, cancel()))

        together(gate, stop)
        is_open = replies["gate"].is_stored
        assert replies["cancel"].begun == (("call-1",) if is_open else ())


# -- no circle of waits ------------------------------------------------------------


@pytest.mark.slow
def test_appends_of_two_processes_do_not_wait_in_a_circle(backend, connected):
    """They name the same runs, in opposite order; one of each pair is refused."""
    names = [str(n) for n in range(8)]
    for name in names:
        running(backend, name)
    first, second = connected(), connected()
    for n in range(1, 21):
        together(
            *(
                lambda store=store, order=order, n=n: insist(
                    store,
                    lambda: store.append(
                        [batch(n, f"event {n}", name=name) for name in order]
                    ),
                )
                for store, order in ((first, names), (second, names[::-1]))
            )
        )
    for name in names:
        events = backend.events(f"run-{name}", 0)
        assert [number for number, _ in events] == list(range(1, 21))


@pytest.mark.slow
def test_forgetting_and_pruning_do_not_wait_in_a_circle(backend, connected):
    """Against workers that claim, write and end the runs of the same owner."""
    names = [str(n) for n in range(8)]

    def work(store, n):
        backend_id = f"public-{n}"
        insist(store, lambda: store.add(new_run(n, conversation=n), None))
        try:
            claim = insist(store, lambda: store.claim(backend_id, "w1", n))
        except LookupError:
            return  # forgotten already
        if claim is not None:
            insist(store, lambda: store.append([batch(1, "{}", name=n)]))
            insist(
                store,
                lambda: store.finish(backend_id, 1, DONE, delta(0, "x", "y"), None),
            )

    def workers(order):
        def run(store):
            insist(store, lambda: store.beat(lease("w1")))
            for n in order:
                work(store, n)

        return run

    for _ in range(4):
        at_once(
            connected,
            workers(names),
            workers(names[::-1]),
            lambda store: [store.forget("anna") for _ in range(6)],
            lambda store: [store.prune(-1.0, -1.0, 3) for _ in range(6)],
        )
    insist(backend, lambda: backend.forget("anna"))
    assert backend.single("SELECT count(*) FROM syncagent_message") == [(0,)]


@pytest.mark.slow
def test_a_conversation_is_pruned_as_a_whole_or_not_at_all(backend, connected):
    """A run that continues it meanwhile gets all messages, or begins a new one."""
    for n in range(12):
        chat = f"chat-{n}"
        id = running(backend, f"{n}-old", conversation=chat)
        backend.finish(id, 1, DONE, delta(0, "one", "two"), None)
        new = f"public-{n}-new"
        seen = []

        def resume(store, n=n, chat=chat, new=new, seen=seen):
            if store.read(new) is None:
                store.add(new_run(f"{n}-new", conversation=chat), None)
            claim = store.claim(new, "w1", "n")
            seen[:] = texts_of(claim.messages)
            store.checkpoint(new, 1, delta(len(seen), "three"))

        at_once(connected, resume, lambda store: store.prune(1e9, -1.0, 50))
        assert seen in ([], ["one", "two"])
        assert texts_of(backend.messages(new)) == [*seen, "three"]
        backend.finish(new, 1, DONE, delta(len(seen) + 1), None)
