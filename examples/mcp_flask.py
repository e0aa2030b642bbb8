"""One MCP server for all requests of a Flask application.

The server starts with the first request, in each worker process, and ends with it.
The example sends itself some requests at once. The MCP server is examples/mcp_tools.py.
Serve it: flask --app examples/mcp_flask.py run
Run it: python examples/mcp_flask.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flask import Flask, request

from syncagent import Agent
from syncagent.mcp import MCPServer
from syncagent.testing import ScriptedModel, call, say

script = Path(__file__).with_name("mcp_tools.py")
notes = MCPServer.stdio([sys.executable, str(script), "serve"], name="notes")
app = Flask(__name__)


def make_model(day):
    """Return a model that calls a tool, and says what it has found."""
    script = [say(call("read_note", {"day": day})), f"See {day}."]
    return os.environ.get("SYNCAGENT_MODEL") or ScriptedModel(script)


@app.post("/ask")
def ask():
    day = request.get_json()["day"]
    agent = Agent(make_model(day), tools=[notes.tools(only=["read_note"])])
    result = agent.run(f"What is there to do on {day}?", timeout=30)
    called = [f"{each.name}: {each.outcome}" for each in result.tool_outcomes]
    return {"answer": result.text, "called": called}


def main():
    def send(day):
        return app.test_client().post("/ask", json={"day": day}).get_json()

    with ThreadPoolExecutor(3) as pool:
        for answer in pool.map(send, ("Monday", "Tuesday", "Wednesday")):
            print(answer)
    print(notes)  # one server, ready for more
    notes.close()


if __name__ == "__main__":
    main()
