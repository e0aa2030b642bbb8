"""Call our server with the official Python client; run by the Python that has it.

``python official_client.py MODE TARGET``, where the target is an address, or a command
as JSON. Prints what happened as JSON.
"""

import json
import sys
import time

import anyio
from mcp import Client, StdioServerParameters
from mcp.types import ElicitResult


async def answer(context, params):
    """Fill in the form of a question as a person would."""
    return ElicitResult(action="accept", content={"answer": "Ada"})


async def main(mode, target):
    """Use everything once."""
    if target.startswith("["):
        command, *arguments = json.loads(target)
        server = StdioServerParameters(command=command, args=arguments)
    else:
        server = target
    reports = []

    async def on_progress(progress, total, message):
        reports.append(message)

    async with Client(server, mode=mode, elicitation_callback=answer) as client:
        version = client.protocol_version
        listed = await client.list_tools()
        added = await client.call_tool("add", {"a": 1, "b": 2})
        asked = await client.call_tool("greet", {})
        began = time.monotonic()
        with anyio.move_on_after(1.0) as scope:
            await client.call_tool("wait", {}, progress_callback=on_progress)
        seconds = time.monotonic() - began
        again = await client.call_tool("add", {"a": 2, "b": 2})
    print(
        json.dumps(
            {
                "version": version,
                "tools": [tool.name for tool in listed.tools],
                "added": added.content[0].text,
                "asked": asked.content[0].text,
                "was_cancelled": scope.cancelled_caught,
                "seconds": seconds,
                "reports": reports,
                "again": again.content[0].text,
            }
        )
    )


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
