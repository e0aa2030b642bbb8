"""The client that the official conformance suite tests: ``syncagent.mcp`` only.

The suite appends the URL of its server to the command, and says by variables of the
environment which scenario it plays. The exit code is 1 if the client gave up with an
error; some scenarios want that.
"""

import json
import os
import sys
import threading

import requests

from syncagent import CancelToken
from syncagent.exceptions import MCPError
from syncagent.mcp import MCPServer

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
CLIENT_METADATA = "https://conformance-test.local/client-metadata.json"

#: Arguments for the tools of the suite that need some.
ARGUMENTS = {"add_numbers": {"a": 5, "b": 3}, "valid_tool": {"region": "us-west1"}}


def browse(url):
    """Do what a browser does: follow the redirects, on a thread of its own."""
    threading.Thread(target=requests.get, args=(url,), kwargs={"timeout": 20}).start()


def authorization():
    """Return the login of the scenario; None if it is not about logins."""
    if not SCENARIO.startswith("auth/"):
        return None
    from syncagent.mcp.oauth import ClientCredentials, OAuth

    secret = CONTEXT.get("client_secret")
    if SCENARIO == "auth/client-credentials-basic":
        return ClientCredentials(CONTEXT["client_id"], secret, allow_private=True)
    return OAuth(
        open_browser=browse,
        client_id=CONTEXT.get("client_id"),
        client_secret=secret,
        client_metadata_url=CLIENT_METADATA if SCENARIO == "auth/basic-cimd" else None,
        allow_private=True,
    )


def accept(question):
    """Answer every form with nothing: the client fills in the defaults."""
    properties = question.form["properties"]
    return {"confirmed": True} if "confirmed" in properties else {}


def call_all(server):
    """Call each tool that the client offers to a model."""
    for tool in server.tools():
        server.call(tool.name, ARGUMENTS.get(tool.name, {}))


def call_given(server):
    """Make the calls that the suite asks for."""
    list(server.tools())
    for call in CONTEXT["toolCalls"]:
        server.call(call["name"], call["arguments"])


def use_everything(server):
    """Use tools, resources and prompts."""
    call_all(server)
    for resource in server.resources():
        server.read(resource["uri"])
    for prompt in server.prompts():
        server.prompt(prompt["name"])


def echo_schema(server):
    """Send the schema of one tool back through another."""
    for definition in server.definitions(CancelToken()):
        if definition["name"] != "json_schema_echo":
            server.call("json_schema_echo", {"schema": definition["inputSchema"]})


def list_only(server):
    """List the tools, as an agent does before its first turn."""
    list(server.tools())


ACTIONS = {
    "http-custom-headers": call_given,
    "http-standard-headers": use_everything,
    "initialize": list_only,
    "json-schema-2020-12-preservation": echo_schema,
    "json-schema-ref-no-deref": list_only,
}


def main(url):
    """Play the scenario, and return the exit code."""
    try:
        with MCPServer.http(url, auth=authorization(), elicit=accept) as server:
            ACTIONS.get(SCENARIO, call_all)(server)
    except MCPError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[-1]))
