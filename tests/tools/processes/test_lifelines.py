"""Programs end with the interpreter that has started them, however it ends."""

import os
import subprocess

import pytest
from support.processes import script_command, script_environment
from support.threads import LONG
from worker_jobs import is_gone

from syncagent.cancel import CancelToken
from syncagent.tools.processes.program import run_process


@pytest.mark.parametrize(
    "way",
    ["return", "exit", "raise", "os._exit", "thread", "SIGTERM", "SIGKILL", "SIGINT"],
)
@pytest.mark.slow
def test_programs_end_with_the_interpreter(mail, way):
    """M5, 7: with a handle in the background, and with all of the program's group."""
    script = subprocess.Popen(
        script_command("tools/processes/lifeline_script", way, mail.path),
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=script_environment(),
    )
    pids = mail.line().split()
    assert len(pids) == 2
    script.communicate(b"go on\n", LONG)
    assert all(is_gone(pid) for pid in pids)


def test_no_lifeline_after_a_normal_end(mail):
    """A server that a program has left behind does not end with this process."""
    text = f"sleep 1000 > /dev/null 2>&1 & echo $! > {mail.path}"
    assert run_process(["sh", "-c", text], token=CancelToken()).returncode == 0
    pid = int(mail.line())
    assert not is_gone(pid, 0.1)
    os.kill(pid, 9)
