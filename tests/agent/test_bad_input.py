"""What cannot work is refused, before anything happens; the rest is repaired."""

import threading

import pytest
from support.agents import SUM, add, check_usable, model, outcomes

from syncagent import (
    Agent,
    AuthenticationFailed,
    CancelToken,
    ConfigurationError,
    Image,
    ProviderError,
)
from syncagent.exceptions import RequestRejected, StreamBroken
from syncagent.messages import (
    AssistantMessage,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.models import OpenAIChat
from syncagent.testing import Broken, Drop, FakeServer, Send, Status, complaints, say
from syncagent.transport import close_idle

NAN = float("nan")
PROMPTS = ["", "  \n\t", [], [""], [" ", "\n"], None, 42, b"bytes", object(), {"a": 1}]
PROMPTS += [["ok", 42], [None], {"ok"}, iter(["ok"]), Text(" "), UserMessage.of("ok")]
#: Half a character, as a file name that is no UTF-8 has; no JSON can be made of it.
PROMPTS += ["\ud800", ["ok", "\udcff"], Text("\udcff")]


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("face", ["run", "stream"])
def test_what_is_no_prompt(prompt, face):
    """It is refused at once, and leaves no trace in the conversation."""
    agent = Agent(model())
    with pytest.raises(ConfigurationError, match="prompt"):
        getattr(agent, face)(prompt)
    assert (agent.messages, agent.model.requests) == ((), [])
    check_usable(agent)


def test_prompts_of_every_kind():
    """A string, a block, and several of both."""
    picture = Image(b"\x89PNG", "image/png")
    agent = Agent(model())
    for prompt in ("hi", picture, Text("hi"), ["hi", picture], ("hi", Text("ho"))):
        assert agent.run(prompt).text == "ok"
    assert complaints(agent.messages) == {}


RUNS = [("timeout", wrong) for wrong in (-1, -0.001, NAN, "5", True, [1], object())]
RUNS += [("cancel", wrong) for wrong in (object(), True, "now", threading.Lock())]
RUNS += [("output", wrong) for wrong in (42, object(), "int", lambda: 1)]
RUNS += [("on_busy", wrong) for wrong in ("later", 1, "")]


@pytest.mark.parametrize(("name", "wrong"), RUNS)
def test_what_a_run_cannot_be_given(name, wrong):
    """Nothing has begun, and nothing holds the agent."""
    agent = Agent(model())
    with pytest.raises(ConfigurationError):
        agent.run("hi", **{name: wrong})
    assert agent.messages == ()
    check_usable(agent)


def test_timeouts_at_the_edge():
    """None at all ends the run before any request; an endless one is none."""
    agent = Agent(model())
    result = agent.run("hi", timeout=0)
    assert (result.cancellation.origin, agent.model.requests) == ("deadline", [])
    assert agent.run("hi", timeout=float("inf")).text == "ok"


def test_what_is_set_before_the_run():
    """Promise 3: no request is made, and the transcript holds the user message only."""
    event, token = threading.Event(), CancelToken()
    event.set()
    token.cancel("before", "remote")
    for given, origin in ((event, "user"), (token, "remote"), (token.signal, "remote")):
        agent = Agent(model())
        result = agent.run("hi", cancel=given)
        assert (result.cancellation.origin, agent.model.requests) == (origin, [])
        assert agent.messages == (UserMessage.of("hi"),)
        assert event.is_set()
        check_usable(agent)


SETTINGS = [
    *(
        ("model", wrong)
        for wrong in (42, None, object(), OpenAIChat, "", "gpt", "a:b:c")
    ),
    *(("tools", wrong) for wrong in (add, "add", None, 42, [42], ["add"], [add, add])),
    *(("limits", wrong) for wrong in ({"turns": 3}, None, 3)),
    *(("cancel_policy", wrong) for wrong in ("keep", None, {})),
    *(("parallel_tools", wrong) for wrong in (0, -1, True, 1.5, "2", None)),
    *(("hooks", wrong) for wrong in (object(), [object()], None)),
    *(("messages", wrong) for wrong in ([42], ["hi"], [None], [{"role": "user"}])),
]


@pytest.mark.parametrize(("name", "wrong"), SETTINGS)
def test_what_an_agent_cannot_be_given(name, wrong):
    """It is said when the agent is made; two tools of one name are one too many."""
    settings = {"model": model(), name: wrong}
    if name == "tools" and wrong == [add, add]:
        settings["tools"] = [add, lambda add: add]
        settings["tools"][1].__name__ = "add"
    with pytest.raises(ConfigurationError):
        Agent(**settings)


LATER = [("messages", 42), ("messages", None), ("system", 42), ("name", 42)]
LATER += [("approve", "yes"), ("authenticate", 1), ("ask", "yes")]


@pytest.mark.parametrize(("name", "wrong"), LATER)
def test_what_an_agent_should_not_be_given(name, wrong):
    """It is said when the agent is made, and not when it is used."""
    with pytest.raises(ConfigurationError):
        Agent(model(), **{name: wrong})


# -- conversations ---------------------------------------------------------------------

CALL = ToolCall("c1", "add", '{"a": 1, "b": 2}')
RESULT = ToolResult("c1", (Text("3"),), name="add")
USER = UserMessage.of("hi")
ANSWER = AssistantMessage((Text("hello"),))
BROKEN = {
    "empty": [],
    "answer first": [ANSWER],
    "call without result": [USER, AssistantMessage((CALL,), "tool_calls")],
    "and words after": [USER, AssistantMessage((CALL,), "tool_calls"), USER],
    "result without call": [USER, ToolMessage((RESULT,))],
    "result first": [ToolMessage((RESULT,)), USER],
    "result twice": [
        *(USER, AssistantMessage((CALL,), "tool_calls")),
        *(ToolMessage((RESULT, RESULT)), ToolMessage((RESULT,))),
    ],
    "result late": [
        *(USER, AssistantMessage((CALL,), "tool_calls"), USER),
        *(ANSWER, ToolMessage((RESULT,))),
    ],
    "call twice": [USER, AssistantMessage((CALL, CALL), "tool_calls")],
    "same id later": [
        *(USER, AssistantMessage((CALL,), "tool_calls"), ToolMessage((RESULT,))),
        *(AssistantMessage((CALL,), "tool_calls"), ToolMessage((RESULT,))),
    ],
    "two users": [USER, USER, USER],
    "two answers": [USER, ANSWER, ANSWER],
    "empty answer": [USER, AssistantMessage(()), USER],
    "blank words": [UserMessage.of(" "), AssistantMessage((Text("\n"),))],
    "thinking only": [USER, AssistantMessage((Thinking("hm"),))],
    "odd id": [USER, AssistantMessage((ToolCall("ü" * 99, "add"),), "tool_calls")],
    "no JSON": [USER, AssistantMessage((ToolCall("c", "add", "{"),), "tool_calls")],
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_conversation_is_repaired(name):
    """Promise 4: every provider takes it, and it goes on."""
    agent = Agent(model(SUM), tools=[add], messages=BROKEN[name])
    assert complaints(agent.messages) == {}
    assert outcomes(agent.run("Add.")) == ["done"]
    assert complaints(agent.messages) == {}
    check_usable(agent)


def test_a_conversation_is_repaired_for_good():
    """Repaired once, it is not changed again."""
    for name, messages in BROKEN.items():
        once = Agent(model(), messages=messages).messages
        assert Agent(model(), messages=once).messages == once, name


def test_messages_may_come_from_anything_that_can_be_iterated():
    """A generator, a tuple, another agent's; and that one is left alone."""
    one = Agent(model())
    one.run("hi")
    two = Agent(model(), messages=(message for message in one.messages))
    two.run("ho")
    assert (len(one.messages), len(two.messages)) == (2, 4)


# -- models ----------------------------------------------------------------------------

ODD = {
    "nothing": (AssistantMessage(()), "end_turn", ""),
    "blank": (AssistantMessage((Text(" \n"),)), "end_turn", " \n"),
    "refusal": (AssistantMessage((Refusal("No."),), "refusal"), "refusal", ""),
    "too long": (AssistantMessage((Text("abc"),), "max_tokens"), "max_tokens", "abc"),
    "thinking": (AssistantMessage((Thinking("hm"),)), "end_turn", ""),
    "other": (AssistantMessage((Text("a"),), "other"), "other", "a"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_answer_ends_the_run(name):
    """With its own reason, and a conversation that goes on."""
    answer, stop_reason, text = ODD[name]
    agent = Agent(model(answer))
    result = agent.run("hi")
    assert (result.stop_reason, result.text) == (stop_reason, text)
    check_usable(agent)


@pytest.mark.parametrize("arguments", ['{"a": 1', '{"a": 1, "b": 2}', ""])
def test_no_call_of_an_answer_that_was_too_long_is_made(arguments):
    """The last one may be half of what was meant, even if it can be read."""
    cut = AssistantMessage((Text("a"), ToolCall("c", "add", arguments)), "max_tokens")
    agent = Agent(model(cut), tools=[add])
    result = agent.run("Add.")
    assert (result.stop_reason, outcomes(result)) == ("max_tokens", ["not_started"])
    check_usable(agent)


def test_an_answer_that_pauses_goes_on():
    """The model is asked again, without a word from anybody."""
    pause = AssistantMessage((Text("One moment."),), "pause")
    agent = Agent(model(pause, "Here."))
    result = agent.run("hi")
    assert (result.text, result.turns) == ("Here.", 2)
    check_usable(agent)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"a": 1', "not a JSON object"),
        ("[1, 2]", "not a JSON object"),
        ('{"a": 1}', "b"),
        ('{"a": "x", "b": 2}', "a"),
        ('{"a": 1, "b": 2, "c": 3}', "c"),
    ],
)
def test_arguments_that_do_not_fit_go_back_to_the_model(arguments, said):
    """The run goes on; nobody's code has seen them."""
    wrong = AssistantMessage((ToolCall("c", "add", arguments),), "tool_calls")
    agent = Agent(model(wrong), tools=[add])
    result = agent.run("Add.")
    assert (outcomes(result), result.stop_reason) == (["failed"], "end_turn")
    assert said in result.tool_outcomes[0].error
    check_usable(agent)


def test_a_tool_that_is_not_there():
    """The model is told which ones are."""
    wrong = AssistantMessage((ToolCall("c", "subtract"),), "tool_calls")
    result = Agent(model(wrong), tools=[add]).run("Subtract.")
    assert (
        "there is no tool 'subtract'; the tools are: add"
        in result.tool_outcomes[0].error
    )


FAILURES = [
    ([Status(400, "nonsense")], RequestRejected),
    ([Status(401, "who?")], AuthenticationFailed),
    ([Send(3), Drop()], StreamBroken),
    ([Send(3), Broken("overloaded")], ProviderError),
]


@pytest.mark.parametrize(("acts", "kind"), FAILURES)
def test_a_server_that_fails(acts, kind):
    """Over a real socket: its error is raised, what came is kept, the agent goes on."""
    with FakeServer([say("Hello there, you all", acts=acts), "ok"]) as server:
        url = server.base_url
        agent = Agent(OpenAIChat("m", base_url=url, api_key="k", retries=0))
        with pytest.raises(kind) as caught:
            agent.run("hi")
        has_begun = isinstance(acts[0], Send)
        assert len(agent.messages) == (2 if has_begun else 1)
        assert caught.value.usage is not None
        check_usable(agent)
    close_idle()


@pytest.mark.parametrize("name", ["", "gpt", "nobody:gpt", "openai:", ":", "local:x:y"])
def test_names_of_models_that_nobody_knows(name):
    """The message says what is wrong with it."""
    with pytest.raises(ConfigurationError):
        Agent(name)
