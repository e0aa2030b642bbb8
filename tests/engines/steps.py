"""Steps that the tests of all engines share."""

import signal

import pytest
from shop import SLOW
from support.threads import until

from syncagent.testing import FakeServer, Send, Stall, say


def on(*engines):
    """Run a test on these engines, one after the other."""
    return pytest.mark.parametrize("any_crew", engines, indirect=True, ids=repr)


def begin(crew, kind="slow", what="hold-1", **labels):
    """Submit a run, and wait until it has an effect; return it and its process."""
    run = crew.store.get(crew.submit(kind, **labels))
    return run, crew.pid_at(run, what)


def finished(crew, run):
    """Wait until a run has ended; return it."""
    crew.store.result(run.id, 30)
    return crew.store.get(run.id)


def outcomes(run):
    return [each.outcome for each in run.result.tool_outcomes]


def check_done(crew, run):
    """Check a run that one worker did."""
    run = finished(crew, run)
    assert (run.state, run.attempt, run.crashes) == ("done", 1, 0)
    assert crew.effects(run) == SLOW


def check_resumed(crew, run, crashes=(1,)):
    """Check a run that was cut off in its second tool, and resumed elsewhere."""
    run = finished(crew, run)
    assert (run.state, run.attempt) == ("done", 2)
    assert run.crashes in crashes
    assert outcomes(run) == ["done", "interrupted", "done"]
    assert crew.effects(run) == SLOW


def check_released(crew, run):
    """Check a run that was released after its second tool, and resumed elsewhere."""
    run = finished(crew, run)
    assert (run.state, run.attempt, run.crashes) == ("done", 2, 0)
    assert (outcomes(run), crew.effects(run)) == (["done"] * 3, SLOW)


def check_released_while_a_model_hangs(crew):
    """End a worker by SIGTERM; another one must resume its run after the grace."""
    (first,) = crew.have(1)
    stalled = say("never said", acts=[Send(3), Stall()])
    with FakeServer([stalled, "All done."]) as server:
        id = crew.submit("remote", server=server.base_url)
        until(lambda: server.requests)
        crew.have(2)
        first.signal(signal.SIGTERM)
        first.wait(20)
        assert crew.store.result(id, 20).text == "All done."
        server.wait_for_hang_up()
    run = crew.store.get(id)
    assert (run.state, run.attempt, run.crashes) == ("done", 2, 0)
