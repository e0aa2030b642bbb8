"""Bodies that real providers have sent, with what must come out of them.

They are looked for in the folder that ``SYNCAGENT_WIRE_DIR`` names, or beside the
project; without one there are none.
"""

import json
import os
from pathlib import Path

from syncagent.events import MessageFinished, TextDelta, ThinkingDelta, ToolCallReady
from syncagent.sse import EventDecoder

BESIDE = Path(__file__).parents[3] / "shared" / "wire"


def folder():
    """Return where they are, None if nowhere."""
    named = os.environ.get("SYNCAGENT_WIRE_DIR")
    path = Path(named) if named else BESIDE
    return path if (path / "index.json").exists() else None


def entries():
    """Return what is known about each of them."""
    found = folder()
    return (
        []
        if found is None
        else json.loads((found / "index.json").read_text())["entries"]
    )


def cut(body, size):
    """Cut *body* into pieces of *size* bytes."""
    return (body[begin : begin + size] for begin in range(0, len(body), size))


def decode(dialect, entry, size):
    """Return the events of one of them, which comes in pieces of *size* bytes."""
    body = (folder() / entry["file"]).read_bytes()
    if not entry["stream"]:
        return list(dialect.decode_body(body))
    decoder = EventDecoder()
    stream = (event for piece in cut(body, size) for event in decoder.feed(piece))
    return list(dialect.decode(stream))


def outcome(events):
    """Return what came of an answer, in the words of the index."""
    finished = events[-1]
    assert isinstance(finished, MessageFinished)
    message = finished.message
    deltas = "".join(e.text for e in events if isinstance(e, TextDelta))
    assert deltas == message.text
    thinking = "".join(e.text for e in events if isinstance(e, ThinkingDelta))
    assert thinking == message.thinking
    ready = [event.call for event in events if isinstance(event, ToolCallReady)]
    assert ready == list(message.tool_calls)
    return {
        "text": message.text,
        "thinking": message.thinking,
        "tool_calls": [(call.call_id, call.name, call.parse()) for call in ready],
        "stop_reason": message.raw_stop_reason or None,
    }


def expected(entry):
    """Return what should have."""
    known = entry["expected"]
    calls = known.get("tool_calls") or []
    return {
        "text": known.get("text") or "",
        "thinking": known.get("thinking") or "",
        "tool_calls": [(call["id"], call["name"], call["args"]) for call in calls],
        "stop_reason": known["stop_reason"],
    }
