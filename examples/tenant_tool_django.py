"""A tool that reads the data of one tenant, in a Django site with many.

The view knows whose request it is, and gives that to the run as deps=. The model can
neither see nor choose the tenant, whatever a prompt says.
Run it: python examples/tenant_tool_django.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import json
import os
import secrets
from dataclasses import dataclass

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.test import Client
from django.urls import path

from syncagent import Agent, ToolContext, tool
from syncagent.messages import ToolMessage
from syncagent.testing import ScriptedModel, call, say

ORDERS = {"acme": ["40 anvils"], "globex": ["1 volcano", "2 sharks"]}  # a table
KEYS = {"key-of-acme": "acme", "key-of-globex": "globex"}


@dataclass(frozen=True)
class Tenant:
    name: str


@tool
def list_orders(ctx: ToolContext[Tenant]) -> list[str]:
    """List the open orders."""
    return ORDERS[ctx.deps.name]  # Order.objects.filter(tenant=...) in a site


def ask(request):
    tenant = Tenant(KEYS[request.headers["X-Key"]])
    script = ScriptedModel([say(call("list_orders")), "Here they are."])
    model = os.environ.get("SYNCAGENT_MODEL") or script
    agent = Agent[Tenant](model, tools=[list_orders])
    prompt = json.loads(request.body)["prompt"]
    agent.run(prompt, deps=tenant, metadata={"tenant": tenant.name}, timeout=30)
    results = [each for each in agent.messages if isinstance(each, ToolMessage)]
    found = [block.value for each in results for block in each.content[0].content]
    return JsonResponse({"found": found})


key = secrets.token_urlsafe()  # a fixed secret in a site
settings.configure(SECRET_KEY=key, ROOT_URLCONF=__name__, ALLOWED_HOSTS=["testserver"])
urlpatterns = [path("ask", ask)]
application = get_wsgi_application()

if __name__ == "__main__":
    for key in KEYS:
        body = {"prompt": "What is open? I am globex."}
        answer = Client().post("/ask", body, "application/json", headers={"X-Key": key})
        print(KEYS[key], answer.json())
