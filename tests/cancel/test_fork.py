"""Promise 9: a cancel never crosses a fork."""

import json
import os

import pytest
from support.processes import run_script

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def play(name, *numbers):
    """Run one scene of the fork script in an interpreter of its own."""
    ended = run_script("cancel/fork_script", name, *numbers, timeout=50)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_child_fires_nothing_of_the_parent():
    """In the child, what the parent hung on a token is let go, not fired."""
    seen = play("fires_nothing_of_the_parent")
    assert seen["child"] == {
        "first": True,
        "fired": 0,
        "let_gone": 1,
        "is_mine": False,
        "late_runs": True,
        "called": False,
        "child_cancelled": True,
    }
    assert seen["untouched"]
    assert seen["fired"] == 1
    assert seen["called"]


def test_child_leaves_the_parents_connection_alone():
    """The child closes its copy; the parent's connection goes on, then ends."""
    seen = play("leaves_the_parents_connection_alone")
    assert seen == {"let_go": True, "said": "still here", "after": ""}


def test_child_gets_fresh_threads():
    """Callbacks and deadlines work in the child, on threads of its own."""
    seen = play("gets_fresh_threads")
    assert seen["called"]
    assert seen["fresh"]
    assert seen["names"] == ["MainThread", "syncagent-cancel", "syncagent-timer"]


def test_a_run_of_the_parent_is_none_of_the_child():
    """An agent that is busy in the parent is idle in the child, and stays exact."""
    seen = play("a_busy_agent_is_idle_in_the_child")
    assert seen["child"] == {"missed": True, "hit": True, "outcome": "child"}
    assert seen["parent"] is None


def test_fork_in_a_callback():
    """A child forked by a callback ends with it, and runs no callback of the parent."""
    assert play("in_a_callback") == {"ended": [0], "ran": [1], "written": "x"}


@pytest.mark.parametrize("rounds", [10, pytest.param(40, marks=pytest.mark.stress)])
@pytest.mark.slow
def test_fork_while_threads_cancel(rounds):
    """Whatever other threads did at the moment of the fork, the child works."""
    assert play("under_fire", rounds) == rounds
