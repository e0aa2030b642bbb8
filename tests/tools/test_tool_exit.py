"""What is left behind does not keep the interpreter from exiting."""

import logging
import threading

import pytest
from support.processes import run_script
from support.threads import until
from support.tools import agent_for, outcomes

from syncagent import CancelToken, ConfigurationError, abandoned, tool
from syncagent.asking.handler_call import call_handler
from syncagent.exceptions import Cancelled
from syncagent.testing import Gate
from syncagent.tools.detachable import DetachableWork


def test_the_interpreter_exits():
    """Promise 7: with tools that never end, by its own status, and without a word."""
    ended = run_script("tools/tool_exit_script")
    assert ended.stdout == "['late', 'deaf']\n"
    assert ended.returncode == 7, ended.stderr
    assert "Traceback" not in ended.stderr


def test_what_is_left_is_logged(caplog):
    """Promise 7: never hidden; and so is its end."""
    caplog.set_level(logging.INFO, "syncagent.tools")
    gate = Gate()

    @tool(timeout=0.2)
    def deaf() -> str:
        """Ignore everything."""
        gate.stop_here()

    result = agent_for(deaf).run("Do it.")
    assert outcomes(result) == ["abandoned"]
    [left] = abandoned()
    assert left.thread == "syncagent-deaf"
    assert left.thread in [thread.name for thread in threading.enumerate()]
    gate.open()
    until(lambda: not abandoned())
    until(lambda: len(caplog.records) == 2)
    assert all(result.run_id in record.getMessage() for record in caplog.records)


def errand(work, done):
    return DetachableWork("job", "call", "run", work, done.append)


def test_what_has_ended_cannot_be_left():
    """Promise 5: exactly one of the two counts."""
    done, ended = [], threading.Event()
    job = DetachableWork("job", "call", "run", lambda: 1, lambda _: ended.set())
    job.start()
    assert ended.wait(10)
    assert not job.leave()
    assert not abandoned()
    assert done == []


def test_what_was_withdrawn_never_begins():
    """Promise 6: even if its thread starts after that."""
    begun, done = [], []
    job = errand(lambda: begun.append(1), done)
    assert job.withdraw()
    job.start()
    job._thread.join(10)
    assert (begun, done) == ([], [])
    assert not abandoned()


def test_a_handler_without_a_thread_is_not_listed():
    """Promise 7: nothing is said to run that never did."""
    token = CancelToken()
    started = []

    def refuse():
        raise RuntimeError("can't start new thread")

    class Poor(threading.Thread):
        def start(self):
            started.append(self)
            refuse()

    real = threading.Thread
    threading.Thread = Poor
    try:
        with pytest.raises(RuntimeError, match="can't start"):
            call_handler("ask", "run", lambda asked: 1, "?", token)
    finally:
        threading.Thread = real
    assert started
    assert not abandoned()


def test_a_function_on_a_thread():
    """It returns, raises, or is left behind."""
    assert call_handler("ask", "run", lambda asked: 1, "?", CancelToken()) == 1
    with pytest.raises(ConfigurationError, match="mine"):
        call_handler("ask", "run", raise_mine, "?", CancelToken())
    token, gate = CancelToken(), Gate()

    def stuck(asked):
        token.cancel("enough")
        gate.stop_here()

    with pytest.raises(Cancelled, match="enough"):
        call_handler("ask", "run", stuck, "?", token)
    gate.open()
    until(lambda: not abandoned())


def raise_mine(asked):
    raise ConfigurationError("mine")
