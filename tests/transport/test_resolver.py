"""Names are looked up by a thread that nobody has to wait for."""

import contextvars
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.interrupting import interrupted
from support.threads import LONG, together

from syncagent import Cancelled, CancelToken
from syncagent.exceptions import ConnectTimeout
from syncagent.testing import FakeClock, Gate
from syncagent.transport import Timeouts, Transport
from syncagent.transport.detached import _running
from syncagent.transport.resolver import resolve

HERE = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))]


class Silent:
    """A resolver that says nothing until its gate is opened."""

    def __init__(self):
        self.gate = Gate()
        self.asked = 0

    def __call__(self, host, port, family, kind):
        self.asked += 1
        self.gate.stop_here()
        return HERE


@pytest.fixture
def silent():
    silent = Silent()
    yield silent
    silent.gate.open()


def test_a_silent_name_server_keeps_nobody(silent):
    """Promise 2: the call ends at once, the look-up later and by itself."""
    token = CancelToken()

    def call():
        with pytest.raises(Cancelled):
            Transport(resolver=silent).post("https://a.example/", token=token, json={})

    together(call, lambda: (silent.gate.wait_reached(), token.cancel()))


def test_a_silent_name_server_is_a_timeout(silent):
    """Looking a name up is part of connecting."""
    with FakeClock() as clock:
        transport = Transport(resolver=silent, timeout=Timeouts(connect=10), retries=0)

        def call():
            with pytest.raises(ConnectTimeout) as error:
                transport.post("https://a.example/", json={})
            assert error.value.phase == "resolve"

        together(call, lambda: (silent.gate.wait_reached(), clock.advance(10)))


def test_many_who_ask_for_one_name_are_one_look_up(silent):
    """However often calls are cancelled, a silent server costs one thread a name."""
    tokens = [CancelToken() for _ in range(20)]
    waiting = threading.Barrier(21)

    def ask(token):
        waiting.wait(LONG)
        with pytest.raises(Cancelled):
            resolve("a.example", 80, token, resolver=silent)

    def cancel():
        waiting.wait(LONG)
        silent.gate.wait_reached()
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("syncagent-dns") == 1
        for token in tokens:
            token.cancel()

    together(cancel, *(lambda token=token: ask(token) for token in tokens))
    assert silent.asked == 1


def test_everybody_gets_the_answer():
    """Those who joined a look-up are told, too; the next one is a new one."""
    silent, answers = Silent(), []

    def ask():
        answers.append(resolve("a.example", 80, CancelToken(), resolver=silent))

    def answer():
        silent.gate.wait_reached()
        silent.gate.open()

    together(answer, *[ask] * 10)
    assert answers == [HERE] * 10
    before = silent.asked
    ask()
    assert silent.asked == before + 1
    assert not _running


def test_a_failure_is_everybodys():
    """And is not kept."""

    def resolver(*_):
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    for _ in range(2):
        with pytest.raises(socket.gaierror, match="try again"):
            resolve("a.example", 80, CancelToken(), resolver=resolver)
    assert not _running


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_addresses_and_names(host):
    """An address is no name: it needs no look-up."""
    [found, *_] = resolve(host, 80, CancelToken())
    assert found[4][0] in ("127.0.0.1", "::1")


def test_a_cancelled_token_looks_nothing_up(silent):
    """Promise 6: nothing starts."""
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        resolve("a.example", 80, token, resolver=silent)
    assert silent.asked == 0


can_unshare = (
    hasattr(os, "geteuid")
    and os.geteuid() == 0
    and shutil.which("unshare") is not None
    and subprocess.run(["unshare", "-m", "true"], check=False).returncode == 0
)


@pytest.mark.skipif(not can_unshare, reason="needs root and mount namespaces")
@pytest.mark.parametrize("origin", ["user", "signal"])
def test_a_real_name_server_that_is_silent(origin):
    """With the system's own resolver stuck, call and program end at once."""
    script = Path(__file__).with_name("dns_script.py")
    ended = subprocess.run(
        ["unshare", "-m", sys.executable, str(script), origin],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
    )
    assert json.loads(ended.stdout) == {"origin": origin, "left": 1}


def test_an_interrupt_at_any_moment_leaves_the_name_usable():
    """Ctrl+C before a look-up has begun makes nobody wait for it."""
    hits = 0
    for step in range(1, 600):
        hits += interrupted(lambda: resolve("localhost", 80, CancelToken()), step)
        assert resolve("localhost", 80, CancelToken(timeout=LONG))
    assert hits > 20  # early releases of 3.13 trace few of them


def test_a_resolver_sees_the_context_of_whoever_asks():
    """Context variables are those of the call."""
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("mine")
    seen = []

    def resolver(*_):
        seen.append(variable.get())
        return HERE

    resolve("a.example", 80, CancelToken(), resolver=resolver)
    assert seen == ["mine"]
