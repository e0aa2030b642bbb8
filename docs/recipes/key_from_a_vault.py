"""A key that changes: a function is asked before every request."""

from pathlib import Path

from syncagent import Agent
from syncagent.models import find_model

#: A sidecar writes a new key here now and then, as Vault's agent and Kubernetes do.
KEY_FILE = Path("/run/secrets/openai")

model = find_model("openai:gpt-6-luna", api_key=lambda: KEY_FILE.read_text().strip())
print(Agent(model).run("Hello").text)
