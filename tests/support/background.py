"""Somebody who runs an agent and is to be released, and a look at what goes on then."""

import sys
import threading
from contextlib import contextmanager

import pytest

from support.threads import LONG, until
from syncagent import AgentBusy
from syncagent.background.handle_thread import HandleThread
from syncagent.events import RunFinished
from syncagent.models import Anthropic, OpenAIChat
from syncagent.testing import Gate, complaints, say

#: The ways to run an agent from which one can be released.
FACES = ["run", "backgroundable", "stream"]
DIALECTS = [OpenAIChat, Anthropic]
AGAIN = "Go on."
#: What is said in the phases; each piece is five characters.
WORDS = "".join(f"{number:04} " for number in range(40))


class Caller:
    """Somebody who runs an agent, on a thread of their own.

    :param face: how: one of :data:`FACES`.
    """

    def __init__(self, agent, face="run", prompt="Do it.", **settings):
        self.agent = agent
        self.events = []
        self._stream = None
        if face == "stream":
            self._stream = agent.stream(prompt, **settings)
        elif face == "backgroundable":
            settings = {"backgroundable": True, **settings}
        self._work = lambda: agent.run(prompt, **settings)
        self._result = self._error = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            if self._stream is None:
                self._result = self._work()
                return
            with self._stream as stream:
                for event in stream:
                    self.events.append(event)
            self._result = stream.result
        except BaseException as error:
            self._error = error

    @property
    def is_waiting(self):
        return self._thread.is_alive()

    def result(self):
        """Wait until the caller has returned; return, or raise, with what."""
        self._thread.join(LONG)
        assert not self._thread.is_alive(), f"not released in {LONG} s"
        if self._error is not None:
            raise self._error
        return self._result


class Phase:
    """A place where a run stands, and a later one, both on the server's side.

    Whoever drives on a thread of their own from the start is released at the first;
    the others are with the next event, and see that the run still stands at the second.
    """

    def __init__(self):
        self.first = Gate()
        self.second = Gate()

    def open(self):
        self.first.open()
        self.second.open()


def model_on(server, dialect, **settings):
    """Return a model that talks to a server."""
    settings = {"retries": 0, **settings}
    return dialect("fake", base_url=server.base_url, api_key="any", **settings)


def connections(server):
    """Return how many connections a server has had; one of its threads accepts them."""
    return len(server._threads) - 1


def phase_of(agent):
    """Return what the live run is doing."""
    live = agent._conversation.slot.live
    return None if live is None else live.phase


def check_released(result, agent):
    """See that the caller is free while the run is live; return the handle."""
    assert result.stop_reason == "backgrounded"
    assert not result.cancelled
    assert complaints(result.messages) == {}
    handle = result.handle
    assert handle.run_id == result.run_id
    assert not handle.done()
    assert agent.is_running
    with pytest.raises(AgentBusy):
        agent.run("Not now.")
    return handle


def check_finished(handle, agent, text):
    """See that the run has come to its end, and that the agent is of use after it."""
    result = handle.result(LONG)
    until(handle.done)
    assert (result.stop_reason, result.text) == ("end_turn", text)
    assert result.run_id == handle.run_id
    assert handle.state == "done"
    assert complaints(agent.messages) == {}
    assert result.messages == agent.messages
    assert not agent.is_running
    assert agent.run(AGAIN).stop_reason == "end_turn"
    assert complaints(agent.messages) == {}
    return result


def said_after(handle):
    """Return the events that a handle has seen, without those of its own states."""
    return list(handle.subscribe())


def texts(events):
    """Return what was said in some events, as one."""
    return "".join(e.text for e in events if type(e).__name__ == "TextDelta")


def ends(events):
    """Return how those say that the run has ended."""
    return [e.result.stop_reason for e in events if isinstance(e, RunFinished)]


class Replies:
    """What a server says: the replies of a script, and then "ok" for ever."""

    def __init__(self, *script):
        self._script = list(script)
        self._lock = threading.Lock()

    def __call__(self, request):
        with self._lock:
            entry = self._script.pop(0) if self._script else say("ok")
        return entry() if callable(entry) else entry


@contextmanager
def late_thread(seconds=None):
    """Hold up threads that are to go on with a run, before their first step.

    :param seconds: for so long; or until the gate is opened.
    """
    gate = Gate()

    def hold(frame, event, arg):
        if event == "call" and frame.f_code is HandleThread._drive.__code__:
            sys.setprofile(None)
            if seconds is None:
                gate.stop_here()
            else:
                threading.Event().wait(seconds)

    threading.setprofile(hold)
    try:
        yield gate
    finally:
        threading.setprofile(None)
        gate.open()
