"""Fork with live tokens, and say in JSON what parent and child saw."""

import json
import os
import socket
import sys
import threading
import warnings

from counting import Counter, Sock
from support.processes import in_child

from syncagent import CancelToken
from syncagent.cancel import RunClaim, RunSlot, threads

LONG = 20.0


def fires_nothing_of_the_parent():
    token, counter, called = CancelToken(), Counter(), threading.Event()
    child = token.child()
    token.attach(counter)
    token.on_cancel(called.set)

    def forked():
        first = token.cancel("in the child")
        late = threading.Event()
        token.on_cancel(late.set)
        return {
            "first": first,
            "fired": counter.fired,
            "let_gone": counter.let_gone,
            "is_mine": token.detach(counter),
            "late_runs": late.wait(LONG),
            "called": called.is_set(),
            "child_cancelled": child.cancelled,
        }

    theirs = in_child(forked)
    untouched = not token.cancelled and counter.fired == 0
    token.cancel("in the parent")
    return {
        "child": theirs,
        "untouched": untouched,
        "fired": counter.fired,
        "called": called.wait(LONG),
    }


def leaves_the_parents_connection_alone():
    here, there = socket.socketpair()
    token, sock = CancelToken(), None
    sock = Sock(here)
    token.attach(sock)

    def forked():
        token.cancel()
        return sock.duplicate.fileno()

    fileno = in_child(forked)
    there.sendall(b"still here")
    said = here.recv(100).decode()
    token.cancel()
    return {"let_go": fileno == -1, "said": said, "after": here.recv(1).decode()}


def gets_fresh_threads():
    before = CancelToken(timeout=60)
    before.on_cancel(print)  # both threads run in the parent now
    parents = threads.current

    def forked():
        token, called = CancelToken(timeout=0.01), threading.Event()
        token.on_cancel(called.set)
        names = sorted(thread.name for thread in threading.enumerate())
        return {
            "called": called.wait(LONG),
            "fresh": threads.current is not parents,
            "names": names,
        }

    return in_child(forked)


def a_busy_agent_is_idle_in_the_child():
    slot = RunSlot()
    claims = [RunClaim()]
    thread = threading.Thread(target=slot.begin, args=claims)
    thread.start()
    thread.join(LONG)

    def forked():
        missed = not slot.cancel()
        claim = RunClaim()
        slot.begin(claim)
        hit = bool(slot.cancel("child"))
        outcome = claim.finish()
        slot.end(claim)
        return {"missed": missed, "hit": hit, "outcome": outcome}

    theirs = in_child(forked)
    return {"child": theirs, "parent": claims[0].finish()}


def in_a_callback():
    """Fork on the callback thread itself: the child must not run callbacks."""
    token, other, ended, ran = CancelToken(), CancelToken(), [], []
    forked = threading.Event()
    readable, writable = os.pipe()

    def fork():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid:
            ended.append(os.waitpid(pid, 0)[1])
            forked.set()

    token.on_cancel(fork)
    other.on_cancel(lambda: (ran.append(1), os.write(writable, b"x")))
    token.cancel()
    other.cancel()
    del other
    forked.wait(LONG)
    in_order = threading.Event()
    CancelToken(timeout=0).on_cancel(in_order.set)
    in_order.wait(LONG)
    return {"ended": ended, "ran": ran, "written": os.read(readable, 10).decode()}


def under_fire(rounds):
    """Fork while other threads cancel, register and reset."""
    over = threading.Event()
    shared = CancelToken()

    def disturb():
        while not over.is_set():
            token = shared.child(timeout=0.001)
            counter = Counter()
            token.attach(counter)
            with shared.on_cancel(bool):
                shared.cancel()
                shared.reset()
            token.detach(counter)

    threads = [threading.Thread(target=disturb) for _ in range(4)]
    for thread in threads:
        thread.start()

    def forked():
        called = threading.Event()
        token = shared.child()
        token.on_cancel(called.set)
        shared.cancel()
        return called.wait(LONG)

    try:
        answers = [in_child(forked) for _ in range(rounds)]
    finally:
        over.set()
    for thread in threads:
        thread.join(LONG)
    return answers.count(True)


if __name__ == "__main__":
    scene, *numbers = sys.argv[1:]
    print(json.dumps(globals()[scene](*map(int, numbers))))
