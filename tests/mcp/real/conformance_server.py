"""A server with the tools that the official conformance suite expects.

``python conformance_server.py [PORT]`` serves ``http://127.0.0.1:PORT/mcp`` and prints
that address; without a port the system chooses one.
"""

import socketserver
import sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from syncagent import ToolContext, tool
from syncagent.exceptions import ToolError
from syncagent.integrations.web.mcp import MCPApp
from syncagent.mcp.serving import MCPService
from syncagent.messages import File, Image, Text

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154"
    "08d763f8cfc000000301010018dd8db00000000049454e44ae426082"
)
WAV = b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0@\x1f\0\0\1\0\x08\0data\0\0\0\0"
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
REGION = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
}


def form(title, **fields):
    """Return the form of a question, whose title is its key on the wire."""
    properties = {name: {"type": kind} for name, kind in fields.items()}
    return {
        "title": title,
        "type": "object",
        "properties": properties,
        "required": list(fields),
    }


@tool
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool
def test_image_content():
    """Return an image."""
    return [Image(PNG)]


@tool
def test_audio_content():
    """Return a sound."""
    return [File(WAV, media_type="audio/wav", name="test.wav")]


@tool
def test_embedded_resource():
    """Return a resource."""
    text = b"This is an embedded resource content."
    return [File(text, media_type="text/plain", name="test://embedded-resource")]


@tool
def test_multiple_content_types():
    """Return blocks of three types."""
    data = b'{"test":"data","value":123}'
    resource = File(data, media_type="application/json", name="test://mixed")
    return [Text("Multiple content types test:"), Image(PNG), resource]


@tool
def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
def test_tool_with_progress(ctx: ToolContext) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        ctx.progress({"progress": done, "total": 100})
        ctx.sleep(0.05)
    return "done"


@tool
def test_logging_tool() -> str:
    """Log nothing, as no client has asked for it."""
    return "logged nothing"


@tool
def test_input_required_result_elicitation(ctx: ToolContext) -> str:
    """Ask for a name."""
    answer = ctx.ask("What is your name?", form=form("user_name", name="string"))
    return f"Hello, {answer['name']}!"


@tool
def test_streaming_elicitation(ctx: ToolContext) -> str:
    """Ask after a progress report."""
    ctx.progress(1)
    return str(ctx.ask("Go on?", form=form("confirm", ok="boolean")))


@tool
def test_input_required_result_request_state(ctx: ToolContext) -> str:
    """Ask for a confirmation."""
    ctx.ask("Please confirm", form=form("confirm", ok="boolean"))
    return "state-ok"


@tool
def test_input_required_result_tampered_state(ctx: ToolContext) -> str:
    """Ask for a confirmation."""
    ctx.ask("Please confirm", form=form("confirm", ok="boolean"))
    return "state-ok"


@tool
def test_input_required_result_multi_round(ctx: ToolContext) -> str:
    """Ask twice."""
    name = ctx.ask("Step 1: What is your name?", form=form("step1", name="string"))
    colour = ctx.ask("Step 2: Your favorite color?", form=form("step2", color="string"))
    return f"{name['name']} likes {colour['color']}"


@tool(parameters=SCHEMA)
def json_schema_2020_12_tool(**arguments) -> str:
    """Tool with JSON Schema 2020-12 features."""
    return str(arguments)


@tool(parameters=REGION)
def test_x_mcp_header(**arguments) -> str:
    """Take an argument that a header repeats."""
    return str(arguments)


TOOLS = [value for name, value in list(globals().items()) if name.startswith("test_")]
TOOLS.append(json_schema_2020_12_tool)


class ThreadedServer(socketserver.ThreadingMixIn, WSGIServer):
    """A thread for each connection."""

    daemon_threads = True


class QuietHandler(WSGIRequestHandler):
    """Log nothing."""

    def log_message(self, *args):
        pass


def main():
    """Serve until the process is killed."""
    app = MCPApp(MCPService(TOOLS, name="conformance", version="1"))
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    with make_server("127.0.0.1", port, app, ThreadedServer, QuietHandler) as server:
        print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
