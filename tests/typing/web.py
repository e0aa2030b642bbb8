"""A web application as users write it; checked by mypy --strict, never run."""

from __future__ import annotations

from typing import Any

from syncagent import Agent
from syncagent.integrations.web.bodies import StartRequest
from syncagent.integrations.web.errors import Refused
from syncagent.integrations.web.web_run import WebRun
from syncagent.integrations.web.wsgi import (
    Runs,
    RunsApp,
    Views,
    cancel_on_disconnect,
    disconnect_probe,
)


def may_see(environ: dict[str, Any], run: WebRun) -> bool:
    return run.owner == environ.get("HTTP_X_USER")


def make_agent(environ: dict[str, Any], start: StartRequest) -> Agent:
    if start.agent not in ("", "helper"):
        raise Refused(422, "unknown_agent", "There is no such agent.")
    return Agent("openai:any", name=start.agent)


runs = Runs(may_see, on_disconnect="detach", grace=5)
views = Views(runs, make_agent, owner_of=lambda environ: environ.get("HTTP_X_USER"))
application = RunsApp(views)


def handler(environ: dict[str, Any], agent: Agent) -> str:
    with cancel_on_disconnect(environ, agent, timeout=60) as token:
        text = agent.run("hello", cancel=token).text
    print(disconnect_probe(environ).can_look, text)
    run = runs.start(agent, "hello", owner="anna")
    with runs.follow(run, after=3, environ=environ) as stream:
        for piece in stream:
            print(len(piece))
    print(bool(runs.cancel(run)), [each.view().state for each in runs.list(environ)])
    return text
