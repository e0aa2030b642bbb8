"""One MCP server for all requests of a Django site.

The server starts with the first request, in each worker process, and ends with it.
The example sends itself some requests at once. The MCP server is examples/mcp_tools.py.
Serve it: gunicorn --chdir examples -k gthread --threads 20 mcp_django
Run it: python examples/mcp_django.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import json
import os
import secrets
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.test import Client
from django.urls import path

from syncagent import Agent
from syncagent.mcp import MCPServer
from syncagent.testing import ScriptedModel, call, say

script = Path(__file__).with_name("mcp_tools.py")
notes = MCPServer.stdio([sys.executable, str(script), "serve"], name="notes")


def ask(request):
    day = json.loads(request.body)["day"]
    # A model that calls a tool, and says what it has found.
    script = [say(call("read_note", {"day": day})), f"See {day}."]
    model = os.environ.get("SYNCAGENT_MODEL") or ScriptedModel(script)
    agent = Agent(model, tools=[notes.tools(only=["read_note"])])
    result = agent.run(f"What is there to do on {day}?", timeout=30)
    called = [f"{each.name}: {each.outcome}" for each in result.tool_outcomes]
    return JsonResponse({"answer": result.text, "called": called})


key = secrets.token_urlsafe()  # a fixed secret in a site
settings.configure(SECRET_KEY=key, ROOT_URLCONF=__name__, ALLOWED_HOSTS=["testserver"])
urlpatterns = [path("ask", ask)]
application = get_wsgi_application()


def main():
    def send(day):
        return Client().post("/ask", {"day": day}, "application/json").json()

    with ThreadPoolExecutor(3) as pool:
        for answer in pool.map(send, ("Monday", "Tuesday", "Wednesday")):
            print(answer)
    print(notes)  # one server, ready for more
    notes.close()


if __name__ == "__main__":
    main()
