"""Promise 9: a connection, its answers and its cancels never cross a fork."""

import json
import os
import subprocess

import pytest
from support.processes import run_script, script_command, script_environment
from support.threads import LONG

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SCRIPT = "transport/fork_script"


@pytest.fixture(params=["http", "https"])
def play(request, server, certificates):
    """Run one scene of the fork script in an interpreter of its own."""

    def play(scene, goes_on=False):
        url = server.url("", request.param).rstrip("/")
        process = subprocess.Popen(
            script_command(SCRIPT, scene, url, certificates.authority),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=script_environment(),
        )
        if goes_on:
            assert process.stdout.readline() == "go on\n", process.stderr.read()
            server.go_on()
        said, errors = process.communicate(timeout=2 * LONG)
        assert process.returncode == 0, errors
        return json.loads(said)

    return play


def test_an_idle_connection_is_not_shared(play):
    """The parent keeps it, the child makes its own."""
    assert play("an_idle_connection") == {"parent": True, "child": False}


def test_the_child_keeps_no_socket_of_the_parent(play):
    """So that a server sees the end of a connection when the parent ends it."""
    seen = play("inherited_descriptors")
    assert seen["mine"] >= 2
    assert seen["theirs"] == []


def test_a_cancel_in_the_child_ends_nothing_of_the_parent(play):
    """The stream goes on where it was."""
    seen = play("a_cancel_in_the_child", goes_on=True)
    assert seen == {"cancelled": True, "events": 2}


def test_a_stream_belongs_to_the_process_that_began_it(play):
    """In the child it is broken; in the parent not a byte is missing."""
    seen = play("a_stream_on_both_sides", goes_on=True)
    assert seen == {"child": "StreamBroken", "parent": 1}


def test_a_session_is_not_shared(play):
    """What tools use is safe, too."""
    assert play("a_session") == {"child": False, "parent": True}


def test_a_look_up_of_the_parent_is_not_the_childs(play):
    """It makes its own, though the parent's is not over."""
    assert play("a_look_up") == {"status": 200}


def test_locks_of_the_parent_are_not_the_childs(play):
    """Pools and TLS contexts are new ones."""
    assert play("what_is_made_anew") == {"contexts": 0, "is_new": True}


@pytest.mark.slow
def test_answers_never_cross(play):
    """Promise 9: forks under fire, and every answer fits its question."""
    assert play("under_fire") == {"wrong": [], "right": True}


def test_the_danger_is_real(server):
    """Plain requests shares the connection, and with it the answers."""
    said = run_script(SCRIPT, "plain_requests", server.url("")[:-1], "")
    assert json.loads(said.stdout) == {"shared": True}
