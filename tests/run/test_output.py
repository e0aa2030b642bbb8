"""An answer of a type: read, repaired, given up, and cancelled like any other."""

from dataclasses import dataclass
from typing import Literal, Optional, TypedDict

import msgspec
import pytest
from support.agents import SUM, add, check_usable, model
from support.threads import meanwhile

from syncagent import Agent, ConfigurationError, OutputInvalid
from syncagent.messages import AssistantMessage, Refusal, Text, UserMessage
from syncagent.models import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from syncagent.testing import FakeServer, Gate
from syncagent.transport import close_idle


@dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


class Movie(TypedDict):
    """A film."""

    title: str
    year: int


class Node(msgspec.Struct):
    """A tree."""

    name: str
    children: "list[Node]" = []  # in one string: Python 3.10 sees no deeper


READ = [
    (int, '{"value": 3}', 3),
    (float, '{"value": 3}', 3.0),
    (str, "three", "three"),
    (bool, '{"value": false}', False),
    (list[int], '{"value": [1, 2]}', [1, 2]),
    (dict[str, int], '{"a": 1}', {"a": 1}),
    (Optional[int], '{"value": null}', None),  # noqa: UP045 - as people write it
    (int | str, '{"value": "x"}', "x"),
    (Literal["a", "b"], '{"value": "b"}', "b"),
    (Point, '{"x": 1}', Point(1)),
    (list[Point], '{"value": [{"x": 1, "y": 2}]}', [Point(1, 2)]),
    (Movie, '{"title": "M", "year": 1931}', {"title": "M", "year": 1931}),
    (Node, '{"name": "a", "children": [{"name": "b"}]}', Node("a", [Node("b")])),
]


@pytest.mark.parametrize(("kind", "said", "value"), READ)
def test_an_answer_of_a_type(kind, said, value):
    """The output is a value of that type; the text is what the model has said."""
    result = Agent(model(said)).run("hi", output=kind)
    assert result.output == value
    assert type(result.output) is type(value)
    assert (result.text, result.stop_reason, result.turns) == (said, "end_turn", 1)


@pytest.mark.parametrize("said", ['```json\n{"value": 3}\n```', ' \n{"value": 3}\n'])
def test_what_models_put_around_it(said):
    """A fence, and space, are no part of it."""
    assert Agent(model(said)).run("hi", output=int).output == 3


def test_a_model_of_pydantic():
    """It is validated by pydantic itself, with its own rules."""
    pydantic = pytest.importorskip("pydantic")

    class User(pydantic.BaseModel):
        name: str
        age: int = pydantic.Field(ge=0)

    agent = Agent(model('{"name": "Ada", "age": -1}', '{"name": "Ada", "age": 36}'))
    result = agent.run("hi", output=User)
    assert result.output == User(name="Ada", age=36)
    assert "age" in str(agent.model.requests[1][-1])


@pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses, Anthropic, Gemini])
def test_over_a_socket(kind):
    """A strict server takes the schema, and the answer is read, after a round too."""
    with FakeServer([SUM, '{"value": [{"x": 1}]}']) as server:
        real = kind("fake", base_url=server.base_url, api_key="k", retries=0)
        result = Agent(real, tools=[add]).run("hi", output=list[Point])
        assert result.output == [Point(1)]
        assert "value" in str(server.requests[0].payload)
    close_idle()


def test_a_wrong_answer_is_repaired():
    """The model is told what is wrong, and asked again, twice at most."""
    agent = Agent(model("three", '{"value": "x"}', '{"value": 3}'))
    result = agent.run("hi", output=int)
    assert (result.output, result.turns, result.usage.input_tokens) == (3, 3, 30)
    asked = [messages[-1].content[0].text for messages in agent.model.requests]
    assert "not JSON" in asked[1]
    assert "int" in asked[2]
    check_usable(agent)


def test_a_repair_after_tools():
    """Rounds of tools are no attempts."""
    agent = Agent(model(SUM, "x", SUM, "y", SUM, '{"value": 3}'), tools=[add])
    assert agent.run("hi", output=int).output == 3


def test_three_wrong_answers_are_enough():
    """An error with the type, what was wrong, and the usage; the agent goes on."""
    agent = Agent(model("a", "b", '{"value": "c"}', "never asked"))
    with pytest.raises(OutputInvalid, match="did not answer with int in 3") as caught:
        agent.run("hi", output=int)
    assert isinstance(caught.value, ValueError)
    assert caught.value.usage.input_tokens == 30
    assert len(agent.model.requests) == 3
    check_usable(agent)


def test_attempts_count_for_each_run_anew():
    """Two wrong ones in each of two runs are fine."""
    agent = Agent(model(*["a", "b", '{"value": 1}'] * 2))
    assert [agent.run("hi", output=int).output for _ in range(2)] == [1, 1]


def test_a_cancel_in_a_repair():
    """Promises 2 and 5: the turn ends at once, and there is no output."""
    gate = Gate()
    agent = Agent(model("wrong", gate))
    with meanwhile(lambda: (gate.wait_reached(), agent.cancel("enough"))):
        result = agent.run("hi", output=int)
    assert (result.stop_reason, result.output, result.turns) == ("cancelled", None, 2)
    check_usable(agent)


def test_a_cancel_after_the_turn_ends_a_repair():
    """Promise 6: an answer that was to be the last is not asked for again."""
    agent = Agent(model("wrong", '{"value": 1}'))
    stream = agent.stream("hi", output=int)
    next(stream)
    agent.cancel(mode="after_turn")
    list(stream)
    assert stream.result.cancelled
    assert len(agent.model.requests) == 1


def test_an_output_is_of_one_run_only():
    """The next run may answer as it likes."""
    agent = Agent(model('{"value": 1}', "words"))
    agent.run("hi", output=int)
    result = agent.run("hi")
    assert (result.output, result.text) == (None, "words")


@pytest.mark.parametrize(
    ("said", "reason"), [(Refusal("No."), "refusal"), (Text('{"val'), "max_tokens")]
)
def test_an_answer_that_cannot_be_of_the_type(said, reason):
    """A refusal, or one that is too long, is the end, and not asked for again."""
    result = Agent(model(AssistantMessage((said,), reason))).run("hi", output=int)
    assert (result.stop_reason, result.output, result.turns) == (reason, None, 1)


@pytest.mark.parametrize("kind", [42, object(), "int", lambda: 1, [int]])
def test_what_is_no_type(kind):
    """It is said before anything happens."""
    agent = Agent(model())
    with pytest.raises(ConfigurationError):
        agent.run("hi", output=kind)
    assert (agent.messages, agent.model.requests) == ((), [])


@pytest.mark.parametrize(
    "said", ["", "null", "[]", '"3"', "{}", '{"value": 3} {}', "[" * 9999]
)
def test_answers_that_are_nothing_of_the_kind(said):
    """Each is a wrong answer and no crash; an empty one too."""
    entry = said or AssistantMessage((Text(" "),))
    agent = Agent(model(entry, '{"value": 1}'))
    assert agent.run("hi", output=int).output == 1
    assert isinstance(agent.messages[0], UserMessage)
    check_usable(agent)


def test_a_value_alone_is_meant_as_it_is():
    """Who leaves the wrapping away is understood."""
    assert Agent(model("3")).run("hi", output=int).output == 3
