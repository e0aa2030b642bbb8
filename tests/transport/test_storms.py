"""Promises 1, 2, 7 and 9 under fire."""

import json
import os
import random
import threading

import pytest
from storms import Canceller, Storm
from support.processes import run_script
from support.threads import LONG, together

from syncagent import CancelToken
from syncagent.exceptions import SyncAgentError
from syncagent.transport.adapter import shared_adapter

pytestmark = pytest.mark.slow

stress = pytest.mark.stress


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("calls", [1500, pytest.param(40_000, marks=stress)])
def test_cancelled_at_random_moments(server, transport, calls):
    """Thousands of calls, none stuck, no descriptor left."""
    storm, threads = Storm(server, transport), 8
    before = descriptors()

    def work(seed):
        randomly = random.Random(seed)
        for _ in range(calls // threads):
            storm.call(randomly, canceller)

    with Canceller() as canceller:
        workers = [lambda seed=seed: work(seed) for seed in range(threads)]
        together(*workers, timeout=LONG + calls / 100)
    assert storm.cancelled > calls / 4
    assert storm.others > calls / 20
    shared_adapter().close()
    assert descriptors() == before


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("requests", [450, pytest.param(30_000, marks=stress)])
def test_bystanders_are_left_alone(server, transport, scheme, requests):
    """Promise 9: no innocent request on the same pool fails, or is answered wrongly."""
    storm, over, wrong = Storm(server, transport), threading.Event(), []

    def disturb(seed):
        randomly = random.Random(seed)
        while not over.is_set():
            storm.call(randomly, canceller, scheme)

    def go_about(name):
        for number in range(requests // 3):
            word = f"{name}-{number}"
            try:
                reply = transport.post(server.url("echo", scheme), json=word)
                if reply.json()["body"] != json.dumps(word):
                    wrong.append((word, reply.body))
            except SyncAgentError as error:
                wrong.append((word, error))

    def innocents():
        try:
            names = ("one", "two", "three")
            together(*(lambda n=n: go_about(n) for n in names), timeout=LONG + requests)
        finally:
            over.set()

    with Canceller() as canceller:
        cancelled = [lambda seed=seed: disturb(seed) for seed in range(3)]
        together(innocents, *cancelled, timeout=2 * LONG + requests)
    assert wrong == []
    assert storm.cancelled > 20


KEY = "canary-0123456789"


@pytest.mark.parametrize("calls", [400, pytest.param(20_000, marks=stress)])
def test_no_key_goes_out_in_clear(server, transport, calls):
    """Promise 9: a relay that sees every byte of TLS never sees the key."""
    through_relay = _Through(server, "relay")
    storm, threads = Storm(through_relay, transport), 4
    headers = {"Authorization": f"Bearer {KEY}"}

    def work(seed):
        randomly = random.Random(seed)
        for _ in range(calls // threads):
            storm.call(randomly, canceller, "https", headers=headers)

    with Canceller() as canceller:
        workers = [lambda seed=seed: work(seed) for seed in range(threads)]
        together(*workers, timeout=LONG + calls / 100)
    assert storm.cancelled > calls / 4
    url = through_relay.url("echo", "https")
    seen = transport.post(url, headers=headers, json={}).json()
    assert seen["headers"]["authorization"] == f"Bearer {KEY}"
    assert not server.has_said(leaked=True)


def test_the_relay_would_see_it(server, transport):
    """What is sent in clear is found: the test before this one can fail."""
    url = _Through(server, "relay").url("echo")
    with pytest.raises(SyncAgentError):
        transport.post(url, headers={"Authorization": f"Bearer {KEY}"}, json={})
    server.wait_for(leaked=True)


class _Through:
    """The server, by another port."""

    def __init__(self, server, port):
        self._server = server
        self._port = port

    def url(self, path, scheme="http"):
        before, after = self._server.ports[scheme], self._server.ports[self._port]
        return self._server.url(path, scheme).replace(str(before), str(after))


@pytest.mark.parametrize(
    ("scene", "signals"),
    [
        ("cancel", 400),
        pytest.param("cancel", 20_000, marks=stress),
        # One that raises may do so anywhere, in Python's own modules and in the script.
        pytest.param("interrupt", 20_000, marks=stress),
    ],
)
def test_signals_at_random_moments(server, certificates, scene, signals):
    """Handlers that cancel, and handlers that raise, leave nothing stuck or open."""
    ended = run_script(
        "transport/signals_script",
        *(scene, signals, server.url("")[:-1], server.url("", "https")[:-1]),
        certificates.authority,
        timeout=LONG + signals / 50,
    )
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout)
    # Where a handler raises between any two steps, Python's own modules lose one now
    # and then: one in 16,000 in weakref.finalize alone, which urllib3's pools have.
    allowed = 1 + signals // 5000 if scene == "interrupt" else 0
    assert seen["left"] <= allowed
    assert seen["works"]
    assert seen["hit"] > signals / 4


def test_two_hundred_calls_cancelled_at_once(server, transport):
    """All return, and nothing is left of any."""
    token, there = CancelToken(), threading.Semaphore(0)

    def call():
        url = server.url("chunked/e/stall")
        stream = transport.stream(url, token=token.child(), json={})
        next(stream)
        there.release()
        with pytest.raises(BaseException, match="cancelled"):
            next(stream)

    def cancel():
        for _ in range(200):
            assert there.acquire(timeout=LONG)
        token.cancel()

    together(cancel, *[call] * 200)
