"""Azure, with tokens of Microsoft Entra in place of a key."""

from azure.identity import DefaultAzureCredential, get_bearer_token_provider

from syncagent import Agent
from syncagent.models import find_model

# The address comes from AZURE_OPENAI_ENDPOINT.
token = get_bearer_token_provider(
    DefaultAzureCredential(), "https://ai.azure.com/.default"
)
agent = Agent(find_model("azure:my-deployment", api_key=token))
print(agent.run("Hello").text)
