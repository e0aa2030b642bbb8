"""Leave with a run in the background: how it ends is printed, and how we do is seen.

The run ends when a line is read, or it is told to.
"""

import signal
import sys
import threading

from syncagent import Agent, CancelToken, Runtime, ToolContext, tool
from syncagent.testing import ScriptedModel, call, say

_go = CancelToken()
_begun = threading.Event()


@tool
def work(ctx: ToolContext) -> str:
    """Work until somebody says so."""
    _begun.set()
    CancelToken.any_of(_go, ctx.token).wait()
    return "worked"


def tell(handle):
    print(handle.result().stop_reason, flush=True)


def start(crew):
    agent = Agent(ScriptedModel([say(call("work")), "ok"]), tools=[work])
    crew.start(agent, "Do it.").add_done_callback(tell)
    assert _begun.wait(10)


def listen():
    """Let the run go on when a line is there."""
    sys.stdin.readline()
    _go.cancel()


def leave_it_to_the_exit(drain):
    """Just end: what is there is drained."""
    start(Runtime(drain=drain))
    print("leaving", flush=True)


def wait_for_sigterm(*, is_shut_down=False):
    """Wait for a signal in the block."""
    with Runtime(drain=10).drain_on_sigterm() as crew:
        start(crew)
        if is_shut_down:
            crew.shutdown(0)
        try:
            print("ready", flush=True)
            CancelToken().wait(10)
        finally:
            print("leaving", flush=True)
    print("after the block", flush=True)


def leave_the_block():
    """Leave it before there is a signal."""
    with Runtime(drain=10).drain_on_sigterm() as crew:
        start(crew)
        print("leaving", flush=True)
    print("after the block", flush=True)


WAYS = {
    "exit": lambda: leave_it_to_the_exit(10),
    "exit at once": lambda: leave_it_to_the_exit(0),
    "signal": wait_for_sigterm,
    "signal later": lambda: wait_for_sigterm(is_shut_down=True),
    "leave": leave_the_block,
}

if __name__ == "__main__":
    signal.alarm(20)
    threading.Thread(target=listen, daemon=True).start()
    WAYS[sys.argv[1]]()
