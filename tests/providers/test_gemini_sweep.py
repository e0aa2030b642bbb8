"""A Gemini that thinks, calls tools at once and gets images is cancelled anywhere."""

import pytest

from syncagent import Agent, ToolContext, tool
from syncagent.messages import Image, Text, Thinking, ToolCall
from syncagent.models import Gemini
from syncagent.testing import FakeServer, cancel_everywhere, say
from syncagent.transport import close_idle

LAST = "All is done."
PROMPT = "Do it."


@tool
def show(what: str, ctx: ToolContext) -> Image:
    """Show something, which takes a moment."""
    ctx.sleep(0.0005)
    return Image(b"\x89PNG")


@tool
def look(what: str) -> str:
    """Look at something."""
    return f"seen: {what}"


LOOKING = say(
    Thinking("What is there?"),
    Text("Let me see.", signature="c2ln"),
    ToolCall("s1", "show", '{"what": "here"}', "c2ln"),
    ToolCall("s2", "look", '{"what": "there"}'),
)


def reply(request):
    """Answer by the last part, so that any number of runs can be served."""
    last = request.payload["contents"][-1]["parts"][-1]
    return LOOKING if last.get("text") == PROMPT else say(LAST)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemini-3.8-flash", "gemini-2.5-pro"])
@pytest.mark.parametrize("way", ["inside", "thread"])
def test_every_point_with_thinking_and_parallel_tools(name, way):
    """B3: the next prompt after any cancel is accepted by the rules of the model."""
    with FakeServer(reply) as server:

        def make():
            close_idle()
            model = Gemini(
                name,
                base_url=server.url_of("gemini"),
                api_key="any",
                retries=0,
                effort="high",
            )
            return Agent(model, tools=[show, look], parallel_tools=2)

        swept = cancel_everywhere(make, PROMPT, way=way)
        close_idle()
    assert {"model", "stream", "tool"} <= swept.phases
    signed = [r for r in server.requests if "c2ln" in str(r.payload)]
    assert signed
