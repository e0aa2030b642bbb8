"""Claude Platform on AWS: Anthropic's own service, with AWS credentials."""

import os

from syncagent import Agent
from syncagent.models import Anthropic
from syncagent.models.aws import SigV4

region = os.environ["AWS_REGION"]
model = Anthropic(
    "claude-sonnet-5-5",
    base_url=os.environ.get("ANTHROPIC_AWS_BASE_URL")
    or f"https://aws-external-anthropic.{region}.api.aws",
    auth=SigV4("aws-external-anthropic", region),
    headers={"anthropic-workspace-id": os.environ["ANTHROPIC_AWS_WORKSPACE_ID"]},
)
print(Agent(model).run("Hello").text)
