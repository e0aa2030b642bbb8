"""AWS Bedrock, with short-lived keys that are made on this machine."""

from aws_bedrock_token_generator import provide_token

from syncagent import Agent
from syncagent.models import find_model

model = find_model("bedrock:openai.gpt-oss-120b-1:0", api_key=provide_token)
print(Agent(model).run("Hello").text)
