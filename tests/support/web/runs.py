"""Runs of this process, with scripted models, and what their streams say."""

import json
import threading

from support.threads import LONG
from syncagent import Agent
from syncagent.integrations.web.runs import Runs
from syncagent.testing import Gate, ScriptedModel

ANNA = "anna"


def owned(request, run):
    """The request is the name of a user."""
    return run.owner == request


def make_runs(authorize=owned, **settings):
    """Return runs for the caller to close."""
    return Runs(authorize, **{"heartbeat": LONG, **settings})


def agent_of(*script, **settings):
    """Return an agent that says this."""
    return Agent(ScriptedModel(list(script)), name="scripted", **settings)


def start(runs, *script, owner=ANNA, **settings):
    """Begin a run that says this."""
    return runs.start(agent_of(*script), "Go on.", owner=owner, **settings)


def silent(runs, **settings):
    """Begin a run whose model says nothing; return it when it is there."""
    gate = Gate()
    run = start(runs, gate, "never", **settings)
    gate.wait_reached()
    return run


def finished(runs, *script, **settings):
    """Return a run that has ended."""
    run = start(runs, *script, **settings)
    assert run.handle.join(LONG)
    return run


def parse(data):
    """Return (id, name, data) of each event of a stream."""
    found = []
    for block in data.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        fields = dict(line.partition(": ")[::2] for line in lines if line)
        if "event" in fields:
            number = int(fields["id"]) if "id" in fields else None
            found.append((number, fields["event"], json.loads(fields["data"])))
    return found


def all_of(stream):
    """Return all events of a stream, to its end."""
    return parse(b"".join(stream))


def how_it_ended(run):
    """Return why a run has ended, and by whom."""
    result = run.handle.result(LONG)
    how = result.cancellation
    return result.stop_reason, how and how.origin


def watch_threads():
    """Return how many threads watch connections."""
    return sum(t.name == "syncagent-watch" for t in threading.enumerate())
