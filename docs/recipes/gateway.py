"""A gateway with a key of its own, in front of a provider with another."""

import os

from syncagent import Agent
from syncagent.models import OpenAIChat

model = OpenAIChat(
    "openai/gpt-6-luna",
    base_url=os.environ["GATEWAY_URL"],
    headers={
        "cf-aig-authorization": f"Bearer {os.environ['GATEWAY_TOKEN']}",
        "HTTP-Referer": "https://my-app.example",
    },
)
print(Agent(model).run("Hello").text)
