"""The application of these tests: plain WSGI, served by every server.

Its provider is named by each request, in ``X-Provider``; its user, in ``X-User``.
"""

import faulthandler
import json
import logging
import os
import signal
import sys
import threading
from functools import cache

from syncagent import Agent, ToolContext, abandoned, tool
from syncagent.cancel import live_runs
from syncagent.integrations.web.wsgi import Runs, RunsApp, Views, cancel_on_disconnect
from syncagent.models import OpenAIChat
from syncagent.transport import close_idle

logging.basicConfig()
faulthandler.register(signal.SIGUSR2)

#: What became of runs, in order.
ended = []


@tool
def work(ctx: ToolContext, seconds: float = 0.0) -> str:
    """Work for a while."""
    ctx.sleep(seconds)
    return "worked"


@tool
def flood(ctx: ToolContext, pieces: int) -> str:
    """Report a lot."""
    for _ in range(pieces):
        ctx.progress("x" * 100_000)
    return "said it all"


@tool(requires_approval=True)
def launch(where: str) -> str:
    """Launch it."""
    return f"launched to {where}"


@tool(requires_auth="bank")
def pay(ctx: ToolContext) -> str:
    """Pay."""
    return f"paid with {len(ctx.credentials)} characters"


@tool
def inquire(ctx: ToolContext) -> str:
    """Ask."""
    return ctx.ask("Which one?")


@cache
def model(base_url):
    return OpenAIChat("fake", base_url=base_url, api_key="sk-secret-of-the-tests")


class Note:
    """Notes how runs end."""

    def on_finish(self, result):
        how = result.cancellation
        ended.append([result.stop_reason, how and how.origin, how and how.phase])
        if how is not None and how.origin == "shutdown":
            print(f"ended by shutdown: {how.reason}", file=sys.stderr, flush=True)

    def on_error(self, error):
        ended.append(["error", type(error).__name__, ""])


def make_agent(environ, start=None):
    return Agent(
        model(environ["HTTP_X_PROVIDER"]),
        tools=[work, flood, launch, pay, inquire],
        name="tester",
        hooks=[Note()],
    )


runs = Runs(
    lambda environ, run: run.owner == environ.get("HTTP_X_USER"),
    on_disconnect=os.environ.get("ON_DISCONNECT", "cancel"),
    grace=float(os.environ.get("GRACE", "0")),
    heartbeat=float(os.environ.get("HEARTBEAT", "60")),
    buffer=int(os.environ.get("BUFFER", "1024")),
    max_per_owner=200,
    max_followers=200,
    max_followers_per_owner=int(os.environ.get("FOLLOWERS", "200")),
    slow_seconds=float(os.environ.get("SLOW", "60")),
)
views = Views(runs, make_agent, owner_of=lambda environ: environ.get("HTTP_X_USER"))
runs_app = RunsApp(views, trusted_hosts=["test"])


def state():
    """Return the state of this process, for the tests."""
    close_idle()
    names = sorted(thread.name for thread in threading.enumerate())
    return {
        "pid": os.getpid(),
        "live": len(live_runs()),
        "runs": len(runs._registry.runs),
        "ended": ended,
        "abandoned": len(abandoned()),
        "ours": [name for name in names if name.startswith("syncagent-run")],
        "descriptors": len(os.listdir("/proc/self/fd")),
    }


def block(environ):
    """Answer when the run is over, unless the client goes before."""
    prompt = environ["QUERY_STRING"].replace("%20", " ")
    with cancel_on_disconnect(environ) as token:
        return {"text": make_agent(environ).run(prompt, cancel=token).text}


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path.startswith("/runs"):
        return runs_app(environ, start_response)
    body = json.dumps(block(environ) if path == "/block" else state()).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response("200 OK", headers)
    return [body]
