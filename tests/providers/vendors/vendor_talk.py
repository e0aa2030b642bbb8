"""Conversations and options, for payloads that are checked against vendors' types."""

import json

from support.messages import MESSAGES

from syncagent.messages import (
    AssistantMessage,
    File,
    Image,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.models.endpoints import ENDPOINTS
from syncagent.models.names import dialect_of
from syncagent.options import Options, OutputFormat, ToolSpec

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "description": "A number."}},
    "required": ["a"],
    "additionalProperties": False,
}
TOOLS = [ToolSpec("add", "Add numbers.", SCHEMA), ToolSpec("look")]
PICTURE = Image(b"\x89PNG", "image/png")
CALL = ToolCall("call_1", "add", '{"a": 1}')
RESULT = ToolMessage((ToolResult("call_1", (Text("2"),), False, "add"),))
HELLO = UserMessage.of("Hello")
CONVERSATIONS = {
    "plain": [HELLO],
    "talk": [HELLO, AssistantMessage((Text("Hi"),)), UserMessage.of("Again")],
    "tools": [HELLO, AssistantMessage((Text("Hm"), CALL)), RESULT],
    "pictures": [
        UserMessage((Text("See:"), PICTURE, Image(url="https://x.example/a.png"))),
        AssistantMessage((CALL,)),
        ToolMessage((ToolResult("call_1", (Text("See:"), PICTURE)),)),
    ],
    "files": [UserMessage((Text("Read:"), File(b"%PDF-1.4")))],
    "thinking": [HELLO, AssistantMessage((Thinking("hm", "c2ln"), CALL)), RESULT],
    "refused": [HELLO, AssistantMessage((Refusal("No."),), "refusal"), HELLO],
    "failed": [
        HELLO,
        AssistantMessage((CALL,)),
        ToolMessage((ToolResult("call_1", (Text("no"),), True),)),
    ],
    "cancelled in a tool": [HELLO, AssistantMessage((CALL,)), HELLO],
    "cancelled in a text": [HELLO, AssistantMessage((Text("He"),), is_cut=True), HELLO],
    "cancelled at once": [HELLO, HELLO],
}
#: Options that every provider has.
OPTIONS = {
    "none": {},
    "system": {"system": "Be kind."},
    "numbers": {"temperature": 0.5, "top_p": 0.9, "max_tokens": 100},
    "auto": {"tool_choice": "auto", "parallel_tool_calls": False},
    "forced": {"tool_choice": "required"},
    "named": {"tool_choice": "add"},
    "output": {"output": OutputFormat(SCHEMA, "age")},
}

#: Any messages, for providers that take no files.
WITHOUT_FILES = MESSAGES.filter(
    lambda message: not any(isinstance(block, File) for block in message.content)
)


def payload(endpoint, messages=(HELLO,), tools=(), *, model="", stream=True, **options):
    """Return the payload for an endpoint, by default for the model of its example."""
    dialect = dialect_of(ENDPOINTS[endpoint])
    model = model or ENDPOINTS[endpoint].example
    sent = dialect.build_payload(
        model, messages, tools, Options(**options), stream=stream
    )
    return json.loads(sent)
