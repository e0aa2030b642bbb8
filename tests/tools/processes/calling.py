"""Call functions in worker processes, and wait until they run."""

import functools

from worker_jobs import Started

from syncagent.cancel import CancelToken
from syncagent.tools.processes.call import call, find_target

#: Milliseconds would do; the machine may be busy.
SOON = 1.0


def refuse(kind, value):
    raise AssertionError(f"nothing is to be served, got {kind} {value}")


def run(function, *args, kill_on=(), context=None, serve=refuse, **kwargs):
    """Call *function* in a worker."""
    target = find_target(function)
    return call(target, args, kwargs, context=context, kill_on=kill_on, serve=serve)


def context(**changes):
    """Return what a worker needs to make a context."""
    return {
        "parameter": "ctx",
        "run_id": "run-1",
        "call_id": "call-1",
        "tool_name": "job",
        "idempotency_key": "key",
        "grace": 0.0,
        "credentials": {"key": "secret"},
        "timeout": None,
        **changes,
    }


class Called(Started):
    """A function in a worker, called by another thread, that has said that it runs."""

    def __init__(self, mail, function, *args, **settings):
        self.token = CancelToken()
        work = functools.partial(
            run, function, mail.path, *args, kill_on=[self.token], **settings
        )
        super().__init__(mail, work)
