"""A few words with the Gemini API, for the tests of that dialect."""

import json

from syncagent.messages import AssistantMessage, ToolCall, UserMessage
from syncagent.options import Options
from syncagent.providers.gemini.request import GeminiDialect
from syncagent.testing.providers.gemini.rules import complaint

GEMINI = GeminiDialect()
HI = UserMessage.of("hi")
CALL = ToolCall("c1", "look", '{"a": 1}', "c2lnbmVk")
SIGNATURE = "c2lnbmF0dXJl"


def payload(*messages, tools=(), name="m", **options):
    """Return what is sent to the model of that name, which the server accepts."""
    body = GEMINI.build_payload(name, messages or [HI], tools, Options(**options))
    found = json.loads(body)
    assert complaint(found, f"/v1beta/models/{name}:generateContent") is None
    return found


def model(*blocks, provider="gemini", **fields):
    return AssistantMessage(tuple(blocks), provider=provider, **fields)


def parts(*messages, **options):
    """Return the parts of the second content."""
    return payload(HI, *messages, **options)["contents"][1]["parts"]


def signed(text, **fields):
    return {"text": text, **fields, "thoughtSignature": SIGNATURE}
