"""MCP servers on pipes, and cancels of their calls from threads and signal handlers."""

import signal
import sys
import threading
import time
from contextlib import contextmanager

from support.mcp_http import Call
from support.threads import until
from syncagent.cancel import CancelToken
from syncagent.mcp import MCPServer
from syncagent.testing import FakeMCPServer

__all__ = ["PROMPT_S", "WAYS", "Call", "cancelled", "go_deaf", "serving", "until"]

#: A call that is cancelled ends within so many seconds, also on a busy machine.
PROMPT_S = 2.0

#: The thread of the call, and who cancels it: a worker thread, which reads the output
#: itself, cancelled by another thread; the main thread, by a signal handler.
WAYS = ("thread", "signal")


@contextmanager
def serving(era="both", *, fake=None, allow_complaints=False, **settings):
    """Yield a fake server with a tool ``echo``, and a client that is not connected."""
    with FakeMCPServer(era=era, **(fake or {})) as server:

        @server.tool
        def echo(text: str = "hi") -> str:
            """Return the text."""
            return text

        client = MCPServer.stdio(server.command, name="srv", **settings)
        try:
            yield server, client
        finally:
            client.close()
        assert allow_complaints or server.complaints == []


def cancelled(way, call, reached):
    """Start ``call(token)``, cancel it once *reached* returns, and return its error.

    It must end at once.
    """
    token = CancelToken()
    times = []

    def cancel(*_):
        times.append(time.monotonic())
        token.cancel("enough")

    if way == "thread":
        error = _on_thread(call, reached, token, cancel)
    else:
        error = _on_main(call, reached, token, cancel)
    assert times, "it ended before the cancel"
    assert time.monotonic() - times[0] < PROMPT_S
    return error


def _on_thread(call, reached, token, cancel):
    running = Call(lambda: call(token))
    reached()
    cancel()
    return running.ended().error


def _on_main(call, reached, token, cancel):
    """Make the call on the main thread, and cancel it in a signal handler."""
    main = threading.main_thread().ident
    before = signal.signal(signal.SIGUSR1, cancel)

    def interrupt():
        reached()
        # A signal right before a wait is noticed late, an old race of Python: not now.
        until(lambda: sys._current_frames()[main].f_code.co_name == "acquire")
        threading.Event().wait(0.005)
        signal.pthread_kill(main, signal.SIGUSR1)

    interrupting = Call(interrupt)
    try:
        call(token)
    except BaseException as error:
        return error
    finally:
        assert interrupting.ended().error is None
        signal.signal(signal.SIGUSR1, before)
    return None


def go_deaf(server, client, number=-1):
    """Have the newest process read no more, and wait until it does so."""
    process = server.processes[number]
    process.go_deaf()
    process.stderr("deaf now\n")
    until(lambda: client.stderr_tail.endswith("deaf now"))
    return process
