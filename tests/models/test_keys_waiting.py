"""Functions for keys that hang, and the ways out: cancel, timeout, signal, fork."""

import os
import signal
import threading

import pytest
from support.keys import NEW, OLD, Refreshable, checking, text_of
from support.processes import in_child
from support.threads import LONG, together

from syncagent import Agent, Cancelled, CancelToken
from syncagent.exceptions import (
    ConnectTimeout,
)
from syncagent.models import OpenAIChat
from syncagent.testing import (
    FakeClock,
    FakeServer,
    Gate,
    cancel_everywhere,
)
from syncagent.testing.leaks import no_leaks
from syncagent.transport import Timeouts
from syncagent.usage import Usage


class Hanging:
    """A function that hangs at a gate."""

    def __init__(self):
        self.gate = Gate()

    def __call__(self):
        self.gate.stop_here(LONG)
        return OLD


@pytest.fixture
def hanging():
    """Such a function; it ends with the test."""
    source = Hanging()
    yield source
    source.gate.open()


@pytest.mark.parametrize("argument", ["api_key", "auth", "headers"])
def test_a_cancel_leaves_a_hanging_function_behind(argument, hanging):
    """Promise 2: the call ends while the function still hangs; no thread stays."""
    value = hanging if argument == "api_key" else lambda *_: hanging()
    settings = {argument: {"X-Token": value} if argument == "headers" else value}
    if argument == "headers":
        settings["api_key"] = OLD
    model = OpenAIChat("m", base_url="http://127.0.0.1:1/v1", **settings)
    token = CancelToken()

    def call():
        with pytest.raises(Cancelled):
            text_of(model, token=token)

    with no_leaks():
        together(call, lambda: (hanging.gate.wait_reached(), token.cancel()))
        names = [thread.name for thread in threading.enumerate()]
        assert "syncagent-credentials" in names
        hanging.gate.open()


def test_a_signal_handler_can_cancel_it(hanging):
    """The main thread waits for the function, and handles signals."""
    token = CancelToken()
    model = OpenAIChat("m", base_url="http://127.0.0.1:1/v1", api_key=hanging)
    before = signal.signal(signal.SIGUSR1, lambda *_: token.cancel("", "signal"))

    def send():
        hanging.gate.wait_reached()
        os.kill(os.getpid(), signal.SIGUSR1)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(Cancelled, match="signal"):
            text_of(model, token=token)
    finally:
        sender.join(LONG)
        signal.signal(signal.SIGUSR1, before)


def test_ctrl_c_ends_it(hanging):
    """The exception of the handler comes out as it is."""

    class Enough(Exception):
        pass

    def handle(*_):
        raise Enough

    model = OpenAIChat("m", base_url="http://127.0.0.1:1/v1", api_key=hanging)
    before = signal.signal(signal.SIGUSR1, handle)

    def send():
        hanging.gate.wait_reached()
        os.kill(os.getpid(), signal.SIGUSR1)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(Enough):
            text_of(model)
    finally:
        sender.join(LONG)
        signal.signal(signal.SIGUSR1, before)


def test_a_hanging_function_is_a_timeout(hanging):
    """The connect timeout counts, and names the phase."""
    with FakeClock() as clock:
        settings = {"timeout": Timeouts(connect=10), "retries": 0}
        model = OpenAIChat(
            "m", base_url="http://127.0.0.1:1/v1", api_key=hanging, **settings
        )

        def call():
            with pytest.raises(ConnectTimeout, match="no credentials within") as error:
                text_of(model)
            assert error.value.phase == "credentials"
            assert error.value.usage == Usage()

        together(call, lambda: (hanging.gate.wait_reached(), clock.advance(10)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_a_function_is_asked(hanging):
    """The child asks for itself, also for a renewal that runs in the parent."""
    source = Refreshable(OLD, NEW)
    is_parent, parent = Gate(), os.getpid()

    def refresh():
        source.refreshed += 1
        if os.getpid() == parent:
            is_parent.stop_here(LONG)

    source.refresh = refresh
    with checking(NEW) as server:
        model = OpenAIChat("m", base_url=server.base_url, api_key=source, retries=0)
        answers = []
        caller = threading.Thread(target=lambda: answers.append(text_of(model)))
        caller.start()
        is_parent.wait_reached()
        source.refreshed = 0
        assert in_child(lambda: text_of(model)) == "ok"
        source.refreshed = 1
        is_parent.open()
        caller.join(LONG)
    assert answers == ["ok"]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["inside", "thread", "meanwhile"])
def test_a_sweep_with_a_function(way):
    """Wherever the run is cancelled, in the credentials, too."""
    with FakeServer(lambda seen: "ok") as server:

        def make_agent():
            model = OpenAIChat("m", base_url=server.base_url, api_key=lambda: OLD)
            return Agent(model)

        swept = cancel_everywhere(make_agent, "Do it.", way=way)
    assert "credentials" in swept.phases
