"""The application of the tests of stores: plain WSGI, its runs in a store.

Its store is named by ``STORE``; its user and its provider by each request.
"""

import faulthandler
import json
import logging
import os
import signal
import threading

from support.web.app import flood, inquire, launch, model, pay, work
from syncagent import Agent, ToolContext, tool
from syncagent.cancel import live_runs
from syncagent.integrations.web.stored_runs import StoredRuns
from syncagent.integrations.web.wsgi import RunsApp, Views
from syncagent.stores import RunStore

logging.basicConfig()
faulthandler.register(signal.SIGUSR2)


@tool
def count(ctx: ToolContext, path: str) -> str:
    """Note that it was called, and by which process."""
    with open(path, "a") as file:
        file.write(f"{ctx.idempotency_key} {os.getpid()}\n")
    return "counted"


def make_agent(run):
    return Agent(
        model(run.labels["provider"]),
        tools=[work, flood, launch, pay, inquire, count],
        name="tester",
    )


store = RunStore(
    os.environ["STORE"],
    make_agent,
    lease=float(os.environ.get("LEASE", "15")),
    timeout=float(os.environ.get("STORE_TIMEOUT", "10")),
)
runs = StoredRuns(
    store,
    lambda environ, run: run.owner == environ.get("HTTP_X_USER"),
    on_disconnect=os.environ.get("ON_DISCONNECT", "detach"),
    heartbeat=float(os.environ.get("HEARTBEAT", "60")),
    max_per_owner=200,
    max_followers=200,
    max_followers_per_owner=200,
)
views = Views(runs, owner_of=lambda environ: environ.get("HTTP_X_USER"))
runs_app = RunsApp(views, trusted_hosts=["test"])


def state():
    """Return the state of this process, for the tests."""
    names = sorted(thread.name for thread in threading.enumerate())
    return {
        "pid": os.getpid(),
        "live": len(live_runs()),
        "ours": [name for name in names if name.startswith("syncagent-run")],
        "threads": names,
        "descriptors": len(os.listdir("/proc/self/fd")),
    }


def application(environ, start_response):
    if environ["PATH_INFO"].startswith("/runs"):

        def start(status, headers, *more):
            return start_response(status, [*headers, ("X-Pid", str(os.getpid()))])

        return runs_app(environ, start)
    body = json.dumps(state()).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response("200 OK", headers)
    return [body]
