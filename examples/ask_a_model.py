"""Ask a model, run the tool that it wants, and go on with another provider.

Both are played by a server on this machine, which checks requests as strictly as real
providers do.

Run it: python examples/ask_a_model.py
With a real model: find_model("anthropic:claude-sonnet-5-5"), with its key set.
"""

from syncagent.events import MessageFinished, TextDelta, ToolCallReady
from syncagent.messages import Text, ToolMessage, ToolResult, UserMessage
from syncagent.models import Anthropic, OpenAIResponses
from syncagent.options import ToolSpec
from syncagent.testing import FakeServer, call, say
from syncagent.transcript import Transcript
from syncagent.transport import close_idle

WEATHER = ToolSpec(
    "weather",
    "Tell the weather in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}},
)
SCRIPT = [
    say("Let me look. ", call("weather", {"city": "Oslo"})),
    say("Take an umbrella with you."),
]


def answer(model, transcript):
    """Print an answer as it comes, and add it to the transcript."""
    for event in model.ask(transcript, [WEATHER]):
        if isinstance(event, TextDelta):
            print(event.text, end="|")
        elif isinstance(event, ToolCallReady):
            print(f"\n  calls {event.call.name} with {event.call.parse()}")
        elif isinstance(event, MessageFinished):  # always the last one
            print(f"\n  {event.usage.total_tokens} tokens")
            transcript.append(event.message)


def main():
    transcript = Transcript([UserMessage.of("What do I need in Oslo today?")])
    with FakeServer(SCRIPT) as server:
        where = {"base_url": server.base_url, "api_key": "none needed"}
        answer(Anthropic("claude-sonnet-5-5", **where), transcript)
        results = [
            ToolResult(each.call_id, (Text("rain"),))
            for each in transcript[-1].tool_calls
        ]
        transcript.append(ToolMessage(tuple(results)))
        answer(OpenAIResponses("gpt-6-luna", **where), transcript)
    close_idle()


if __name__ == "__main__":
    main()
