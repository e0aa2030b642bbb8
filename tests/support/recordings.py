"""Runs to be recorded, and what their recordings say."""

import json

from syncagent import Agent, ToolContext, tool
from syncagent.events import decode_event
from syncagent.testing import ScriptedModel, call, say
from syncagent.timeline import read_timeline

#: Seconds after which a test is stuck.
LONG = 20.0


@tool
def look(what: str, ctx: ToolContext) -> str:
    """Look at something, and say so."""
    ctx.progress(f"looking at {what}")
    return f"seen: {what}"


@tool
def wait(ctx: ToolContext) -> str:
    """Wait until the run ends."""
    ctx.sleep(LONG)
    return "too late"


def looking_agent(**settings):
    """Return an agent that looks at two things, and then is done."""
    script = [
        say(
            "Let me see.",
            call("look", {"what": "here"}, "look_1"),
            call("look", {"what": "there"}, "look_2"),
        ),
        "All is done.",
    ]
    return Agent(ScriptedModel(script), tools=[look], **settings)


def read_lines(path):
    """Return the lines of a recording without the first one, which is checked."""
    text = path.read_bytes() if hasattr(path, "read_bytes") else path
    header, *lines = map(json.loads, text.splitlines())
    assert header["syncagent"] == "recording"
    assert header["version"] == 1
    return lines


def events_of(lines, run_id=None):
    """Return the events among *lines*, of one run or of all."""
    return [
        decode_event(json.dumps(line["event"]))
        for line in lines
        if "event" in line and run_id in (None, line["run"])
    ]


def ending_of(lines):
    """Return the result or the error that the last line tells, if it is the end."""
    last = lines[-1]
    if "error" in last:
        return last["error"]
    assert last["event"]["type"] == "run_finished", last
    return last["event"]["result"]


def rows_of(path, kind=None):
    """Return the rows of a recording's timeline, perhaps of one kind only."""
    rows = read_timeline(path).rows
    return [row for row in rows if kind in (None, row.kind)]
