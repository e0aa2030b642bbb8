"""Payloads and responses of providers that are compatible with Chat Completions."""

import json

from syncagent.events import MessageFinished
from syncagent.models.endpoints import ENDPOINTS
from syncagent.models.names import dialect_of
from syncagent.options import Options, ToolSpec
from syncagent.sse import ServerSentEvent
from syncagent.testing.providers.played import PLAYED

TOOL = ToolSpec("weather", "Tell the weather.")


def payload_of(endpoint, *messages, model="", tools=(), base_url="", **options):
    """Return a payload that the provider accepts."""
    dialect = dialect_of(ENDPOINTS[endpoint], base_url)
    model = model or ENDPOINTS[endpoint].example
    built = dialect.build_payload(
        model, list(messages) or "hi", tools, Options(**options)
    )
    payload = json.loads(built)
    if endpoint in PLAYED:
        assert PLAYED[endpoint].complaint(payload, "") is None
    return payload


def chunk(delta=None, finish=None, **more):
    """Return an event of a stream."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {"id": "1", "model": "m", "choices": [choice], **more}


def finished(endpoint, *events):
    """Return the last event of a response: the message and its usage."""
    stream = [ServerSentEvent(json.dumps(event)) for event in events]
    last = list(dialect_of(ENDPOINTS[endpoint]).decode(stream))[-1]
    assert isinstance(last, MessageFinished)
    return last


def replied(endpoint, body):
    """Return the same for a response that is not streamed."""
    dialect = dialect_of(ENDPOINTS[endpoint])
    return list(dialect.decode_body(json.dumps(body).encode()))[-1]
