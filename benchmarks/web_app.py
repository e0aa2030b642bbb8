"""The application of the web benchmarks: the same streams, with us and without."""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from syncagent import Agent
from syncagent.events import encode_event
from syncagent.integrations.web.bodies import StartRequest
from syncagent.integrations.web.sse import HEADERS, format_event
from syncagent.integrations.web.wsgi import Runs, RunsApp, Views
from syncagent.models import OpenAIChat
from syncagent.testing import ScriptedModel

#: How many events a run has, more or less.
EVENTS = 10_000

_WORDS = "word " * EVENTS


def _is_anybody(environ: dict[str, Any], run: object) -> bool:
    return True


runs = Runs(
    _is_anybody,
    buffer=2 * EVENTS,
    max_live=1000,
    max_per_owner=1000,
    max_followers=1000,
    max_followers_per_owner=1000,
)


@cache
def _model(base_url: str) -> OpenAIChat:
    return OpenAIChat("fake", base_url=base_url, api_key="any")


def make_agent(environ: dict[str, Any], start: StartRequest) -> Agent:
    if start.prompt == "flow":
        return Agent(ScriptedModel([_WORDS]))
    return Agent(_model(environ["HTTP_X_PROVIDER"]))


_app = RunsApp(Views(runs, make_agent, owner_of=lambda environ: "anybody"))


def by_hand() -> Iterator[bytes]:
    """Stream a run as one does without us: on the request's thread."""
    with Agent(ScriptedModel([_WORDS])).stream("flow") as stream:
        for number, event in enumerate(stream):
            name = str(event.__struct_config__.tag)
            yield format_event(name, encode_event(event), number)


@cache
def _recorded() -> list[bytes]:
    return list(by_hand())


def idle() -> Iterator[bytes]:
    """Stream nothing, for as long as the client stays."""
    nothing: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    yield b": begin\n\n"
    while True:
        try:
            yield nothing.get(timeout=1.0)
        except queue.Empty:
            yield b": still here\n\n"


def state() -> dict[str, float]:
    """Return what this process has used and has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "cpu": time.process_time(),
        "kib": pages * os.sysconf("SC_PAGE_SIZE") / 1024,
        "threads": threading.active_count(),
    }


def application(
    environ: dict[str, Any], start_response: Callable[..., Any]
) -> Iterable[bytes]:
    path = environ["PATH_INFO"]
    if path.startswith("/runs"):
        return _app(environ, start_response)
    if path == "/state":
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(state()).encode()]
    start_response("200 OK", list(HEADERS))
    if path == "/idle":
        return idle()
    return by_hand() if path == "/by-hand" else iter(_recorded())
