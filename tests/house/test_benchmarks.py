"""The benchmarks run in any environment, and skip what is not installed."""

import subprocess
import sys

from source import ROOT

PEERS = """
import sys, threading, time
from benchmarks import peers
from benchmarks.peers.program import PEERS
with peers.server() as url:
    ours = PEERS["syncagent"](url)
    ours.ask("say three words")
    print(ours.agent.messages[-1].text)
    timer = threading.Timer(0.3, ours.stop)
    timer.start()
    ours.ask("HANG NOW")
    print(ours.agent.messages[-1].is_cut)
    print(peers.measured(sys.executable, "strands", url))
"""


def run(*arguments):
    found = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return found.stdout


def test_other_sdks_are_measured_against_a_server_that_falls_silent():
    """Ours gets its words, and is stopped in the silence; a missing SDK is skipped."""
    assert run("-c", PEERS).splitlines() == ["one two three", "True", "None"]
