"""A few words with the Responses API, for the tests of that dialect."""

import json

from syncagent.messages import ProviderBlock, ToolCall, UserMessage
from syncagent.providers.openai_responses.request import OpenAIResponsesDialect
from syncagent.sse import ServerSentEvent

DIALECT = OpenAIResponsesDialect()
NAME = "openai-responses"
HELLO = UserMessage.of("Hello")
ITEM = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [],
    "encrypted_content": "gAAAAxyz",
}
REASONING = ProviderBlock(NAME, ITEM)
CALL = ToolCall("c1", "add", '{"a":1}')


def stream(*said):
    """Return events, without names, as some hosts send them."""
    return [ServerSentEvent(json.dumps(data)) for data in said]


def event(kind, **data):
    return {"type": f"response.{kind}", **data}


def created():
    return event("created", response={"id": "resp_1", "model": "gpt-x"})


def completed(*output, **more):
    return event("completed", response={"output": list(output), **more})


def message_item(text, **more):
    part = {"type": "output_text", "text": text, **more}
    return {"type": "message", "id": "m", "role": "assistant", "content": [part]}


def call_item(call_id="c1", arguments='{"a":1}', name="add"):
    item = {"type": "function_call", "call_id": call_id, "name": name}
    return {**item, "arguments": arguments}
