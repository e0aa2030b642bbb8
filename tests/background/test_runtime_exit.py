"""What becomes of runs in the background when the process ends."""

import select
import signal
import subprocess

import pytest
from support.processes import script_command, script_environment
from support.threads import LONG


class Script:
    """The script that leaves, and what it says."""

    def __init__(self, way):
        self._process = subprocess.Popen(
            script_command("background/drain_script", way),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=script_environment(),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()

    def hear(self, line):
        """Wait for what it says next."""
        heard = self._process.stdout.readline()
        assert heard == f"{line}\n", heard or self._process.stderr.read()

    def has_more(self, seconds):
        """Does it say something in that time?"""
        return bool(select.select([self._process.stdout], [], [], seconds)[0])

    def terminate(self):
        """Send it SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    def end(self, said=""):
        """Let its run go on, if something is said; return the rest, and how it ends."""
        out, errors = self._process.communicate(said, LONG)
        assert "Traceback" not in errors, errors
        return out, self._process.returncode


TERMINATED = 128 + signal.SIGTERM


def test_the_end_of_the_interpreter_waits_for_what_runs():
    """Daemon threads alone would be cut off: the run comes to its end."""
    with Script("exit") as script:
        script.hear("leaving")
        assert script.end("go\n") == ("end_turn\n", 0)


def test_the_end_of_the_interpreter_ends_what_does_not_come_to_its_end():
    """After as long as drain says; nothing hangs."""
    with Script("exit at once") as script:
        script.hear("leaving")
        script.hear("shutdown")
        assert script.end() == ("", 0)


def test_sigterm_leaves_the_block_and_drains():
    """The run comes to its end, and the status is as if SIGTERM had ended us."""
    with Script("signal") as script:
        script.hear("ready")
        script.terminate()
        script.hear("leaving")
        assert script.end("go\n") == ("end_turn\n", TERMINATED)


@pytest.mark.parametrize("way", ["signal", "leave"])
def test_a_second_sigterm_ends_what_is_still_running(way):
    """At once, in a handler on the thread that waits for it."""
    with Script(way) as script:
        if way == "signal":
            script.hear("ready")
            script.terminate()
            script.hear("leaving")
        else:
            script.hear("leaving")
            script.terminate()
        script.terminate()
        # Two that come at the same time are one to the system.
        while not script.has_more(0.05):
            script.terminate()
        script.hear("shutdown")
        assert script.end() == ("", TERMINATED)


def test_a_sigterm_while_it_drains_is_not_swallowed():
    """What drains may come to its end; then the process ends, as it was told to."""
    with Script("leave") as script:
        script.hear("leaving")
        script.terminate()
        assert script.end("go\n") == ("end_turn\n", TERMINATED)


def test_sigterm_in_a_block_whose_runtime_is_shut_down():
    """The block is left all the same."""
    with Script("signal later") as script:
        script.hear("shutdown")
        script.hear("ready")
        script.terminate()
        script.hear("leaving")
        assert script.end() == ("", TERMINATED)
