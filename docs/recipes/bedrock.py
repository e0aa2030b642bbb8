"""AWS Bedrock, with the credentials of the AWS command line, a role or a profile."""

from syncagent import Agent

# Requests are signed; this needs syncagent[aws]. The region comes from AWS_REGION.
for name in ("bedrock:anthropic.claude-sonnet-5-5-v1:0", "bedrock:openai.gpt-5.6-sol"):
    agent = Agent(name)
    print(agent.run("Hello").text)
