"""What xAI rejects, and so do the rules of the testing kit."""

import json

import pytest
from responses_talk import HELLO, call_item

from syncagent import Agent, tool
from syncagent.exceptions import RequestRejected
from syncagent.messages import AssistantMessage, Text, Thinking, ToolCall
from syncagent.models.endpoints import ENDPOINTS
from syncagent.models.names import dialect_of, find_model
from syncagent.options import Options, ToolSpec
from syncagent.testing import FakeServer, say
from syncagent.testing.providers.xai import speech
from syncagent.testing.providers.xai.rules import complaint
from syncagent.usage import Usage

USER = {"role": "user", "content": "Hi"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "2"}
SEALED = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "gAAAAx"}
TOOL = {"type": "function", "parameters": {"type": "object"}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": ""}, "model"),
        ({"model": 7}, "model"),
        ({"background": True}, "background"),
        ({"instructions": "x", "previous_response_id": "y"}, "previous_response_id"),
        ({"model": "grok-4", "reasoning": {"effort": "low"}}, "reasoningEffort"),
        ({"reasoning": {"effort": "none"}}, "none"),
        ({"reasoning": {"effort": "xhigh"}}, "xhigh"),
        ({"reasoning": 7}, "deserialize"),
        ({"tools": [{**TOOL, "name": f"t{n}"} for n in range(129)]}, "128"),
        ({"input": [SEALED, {"role": "assistant", "content": "x"}]}, "decrypt"),
        ({"input": [USER, call_item()]}, "No tool output"),
        ({"input": [USER, OUTPUT]}, "No tool call"),
    ],
)
def test_each_rule_can_be_broken(change, said):
    """The sentence says which it is; without the change all is well."""
    right = {"model": "grok-4.5", "store": False, "input": [USER]}
    assert complaint(right) is None
    assert said in str(complaint({**right, **change}))


@pytest.mark.parametrize("model", ["grok-4.3", "grok-4.5", "grok-4.6", "grok-9"])
@pytest.mark.parametrize("effort", [None, "minimal", "low", "medium", "high", "max"])
def test_every_effort_is_accepted(model, effort):
    """And so are the fields that always go with it."""
    dialect = dialect_of(ENDPOINTS["xai"])
    options = Options(system="Be kind.", effort=effort, temperature=0.7)
    sent = json.loads(dialect.build_payload(model, [HELLO], [ToolSpec("f")], options))
    assert complaint(sent) is None
    assert (sent["store"], sent["include"]) == (False, ["reasoning.encrypted_content"])
    assert sent["instructions"] == "Be kind."


def test_its_reasoning_goes_back_in_a_loop_of_tools():
    """M6: each round of tools keeps the thinking of those before."""

    @tool
    def add(a: int) -> int:
        """Add one."""
        return a + 1

    first = say(Thinking("Hm."), ToolCall("c1", "add", '{"a": 1}'))
    with FakeServer([first, say("Two.")]) as server:
        url = server.url_of("xai")
        model = find_model("xai:grok-4.5", base_url=url, api_key="k")
        assert Agent(model, tools=[add]).run("1 + 1?").text == "Two."
        sent = server.requests[-1].payload["input"]
    (sealed,) = [item for item in sent if item.get("type") == "reasoning"]
    assert sealed["encrypted_content"].startswith(speech.SEAL)


def test_its_errors_are_read():
    """They have a form of their own."""
    with FakeServer([]) as server:
        url, extra = server.url_of("xai"), {"reasoning": {"effort": "low"}}
        model = find_model("xai:grok-4", base_url=url, api_key="k", extra=extra)
        with pytest.raises(RequestRejected, match="does not support parameter"):
            Agent(model).run("Hi")


def test_it_speaks_as_openai_does():
    """The same message comes of it."""
    said = AssistantMessage((Text("Hi"),), "end_turn", "completed")
    body = json.dumps(speech.body(said, Usage(1, 2))).encode()
    *_, finished = dialect_of(ENDPOINTS["xai"]).decode_body(body)
    assert finished.message.content == said.content
    assert finished.message.provider == "xai"
