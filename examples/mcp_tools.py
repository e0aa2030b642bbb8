"""Tools of an MCP server: choose some, give them a prefix, and cancel in the middle.

The server is this file, too: started with "serve", it has three tools for its client.
Run it: python examples/mcp_tools.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os
import sys
import threading

from syncagent import Agent, ToolContext, ToolProgress, tool
from syncagent.mcp import MCPServer
from syncagent.mcp.serving import serve_stdio
from syncagent.testing import ScriptedModel, call, say


@tool
def read_note(day: str) -> str:
    """Read the note of a day."""
    return f"{day}: buy milk"


@tool
def read_all(ctx: ToolContext) -> str:
    """Read the notes of a year, which takes a while."""
    for day in range(1, 366):
        ctx.progress({"progress": day, "total": 365, "message": f"day {day}"})
        ctx.sleep(0.2)  # a cancel at the client ends it here
    return "There is a lot to do."


@tool
def delete_note(day: str) -> str:
    """Delete the note of a day."""
    return "deleted"


class Printer:
    def on_event(self, event):
        if isinstance(event, ToolProgress):
            print("progress:", event.value["message"])


def main():
    calls = call("notes_read_note", {"day": "Monday"}), call("notes_read_all")
    script = [say(calls[0]), "Buy milk.", say(calls[1]), "As you wish."]
    model = os.environ.get("SYNCAGENT_MODEL") or ScriptedModel(script)
    with MCPServer.stdio([sys.executable, __file__, "serve"], name="notes") as notes:
        tools = notes.tools(only=["read_*"], prefix="notes_")
        print(f"MCP {notes.version}:", [each.name for each in tools])
        agent = Agent(model, tools=[tools], hooks=[Printer()])
        print(agent.run("What is there to do on Monday?").text)
        threading.Timer(0.5, agent.cancel, ["too long"]).start()  # ends both sides
        print(agent.run("And in the whole year?").cancellation)
        print(agent.run("Never mind.").text)  # in the same session


if __name__ == "__main__":
    serve_stdio(read_note, read_all, delete_note) if "serve" in sys.argv else main()
