"""The I/O thread of a server on pipes is woken at once by calls of any thread."""

import threading
import time

import pytest
from support.mcp_stdio import serving
from support.threads import meanwhile

from syncagent.tools.processes.child import NAP

#: Calls, and the seconds they may take: without a wake each would wait for the end of
#: a nap.
CALLS = 5
LIMIT = CALLS * NAP / 2


@pytest.mark.parametrize("is_main", [True, False], ids=["main", "thread"])
def test_calls_one_after_another_wait_for_no_nap(is_main):
    """Five calls take milliseconds, on the main thread as on any other."""
    with serving() as (_, client):
        client.connect()

        def work():
            assert threading.current_thread() is threading.main_thread() or not is_main
            began = time.monotonic()
            for _ in range(CALLS):
                client.call("echo", {"text": "on"})
            assert time.monotonic() - began < LIMIT

        if is_main:
            work()
        else:
            with meanwhile(work):
                pass
