"""What a server asks in a call: forms, pages, a model's response, roots."""

import pytest
from support.agents import check_usable, outcomes, told
from support.agents import model as scripted
from support.mcp_stdio import WAYS, cancelled, serving
from support.threads import LONG

from syncagent import Agent
from syncagent.exceptions import Cancelled, MCPProtocolError
from syncagent.mcp import Sampling
from syncagent.testing import ClientRefused, Gate, ScriptedModel, call, say

eras = pytest.mark.parametrize("era", ["legacy", "modern"])
ways = pytest.mark.parametrize("way", WAYS)

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "default": 36},
    },
    "required": ["name"],
}


def asking_name(exchange):
    """Ask for a name, and return the client's answer as a text."""
    return text_result(exchange.elicit("Who?", FORM))


def asking_model(exchange):
    return text_result(exchange.sample("Say it.")["content"]["text"])


def refused_model(exchange):
    try:
        return text_result(exchange.sample("Say it."))
    except ClientRefused as error:
        return text_result(f"refused: {error.code}")


def text_result(value):
    return {"content": [{"type": "text", "text": f"{value}"}]}


def agent_of(client, **settings):
    return Agent(scripted(say(call("echo"))), tools=[client], **settings)


@eras
def test_a_form_goes_to_the_handler_and_its_answer_to_the_server(era):
    """The question names the server; fields that are left out get their defaults."""
    asked = []

    def ask(question):
        asked.append(question)
        return {"name": "Ada"}

    with serving(era) as (server, client):
        server.on("tools/call", asking_name)
        agent = agent_of(client, ask=ask)
        result = agent.run("Go.")
        assert outcomes(result) == ["done"]
        assert "{'action': 'accept', 'content': {'age': 36, 'name': 'Ada'}}" in told(
            agent
        )
    assert "srv asks: Who?" in asked[0]
    assert asked[0].form == FORM


@eras
def test_without_a_handler_the_run_parks_and_the_call_is_made_again(era):
    """The server runs nothing while the question waits; the answer goes on."""
    with serving(era) as (server, client):
        server.on("tools/call", asking_name, times=2)
        agent = agent_of(client)
        result = agent.run("Go.")
        (question,) = result.interrupts
        assert question.form == FORM
        first = server.requests("tools/call")[0].id
        if era == "legacy":
            server.wait_for(server.cancels)
        assert server.cancels() == ([first] if era == "legacy" else [])
        result = agent.resume({question.id: {"name": "Ada"}})
        assert outcomes(result) == ["done"]
        assert "'name': 'Ada'" in told(agent)
        check_usable(agent)


@eras
@pytest.mark.parametrize(("answer", "action"), [(False, "decline"), (None, "cancel")])
def test_a_question_that_is_not_answered_is_told_in_its_own_word(era, answer, action):
    """A refusal declines, no answer cancels the question; the call goes on."""
    with serving(era) as (server, client):
        server.on("tools/call", asking_name)
        agent = agent_of(client, ask=lambda question: answer)
        assert outcomes(agent.run("Go.")) == ["done"]
        assert f"{{'action': '{action}'}}" in told(agent)


@eras
def test_a_page_is_shown_whole_and_accepted_without_content(era):
    """The user sees the whole URL; no one but the user opens it."""
    asked = []
    url = "https://example.com/a?b=c"

    def ask(question):
        asked.append(question)
        return {"agreed": True}

    with serving(era) as (server, client):
        server.on("tools/call", lambda x: text_result(x.elicit_url("Log in", url)))
        agent = agent_of(client, ask=ask)
        agent.run("Go.")
        assert "{'action': 'accept'}" in told(agent)
    assert f"srv asks you to open {url}: Log in" in asked[0]


PAGES_FIRST = -32042
PAGE = {"mode": "url", "elicitationId": "e1", "url": "https://a.test/x", "message": "?"}


def pages_first(exchange):
    """Answer with the error of a server that wants a page to be opened first."""
    exchange.error(PAGES_FIRST, "open it first", {"elicitations": [PAGE]})


@pytest.mark.parametrize("is_parked", [False, True], ids=["handler", "parked"])
def test_a_page_that_a_call_needs_first_is_shown_and_the_call_made_again(is_parked):
    """Error -32042 of 2025-11-25: the user agrees, and the server is called anew."""
    asked = []

    def ask(question):
        asked.append(question)
        return {"agreed": True}

    with serving("legacy") as (server, client):
        server.on("tools/call", pages_first, times=2 if is_parked else 1)
        agent = agent_of(client, **({} if is_parked else {"ask": ask}))
        result = agent.run("Go.")
        if is_parked:
            (question,) = result.interrupts
            asked.append(question.question)
            result = agent.resume({question.id: {"agreed": True}})
        assert outcomes(result) == ["done"]
        assert len(server.requests("tools/call")) == (3 if is_parked else 2)
        assert server.cancels() == []
    assert len(asked) == 1
    assert "srv asks you to open https://a.test/x" in asked[0]


@pytest.mark.parametrize(
    "data",
    [
        {"elicitations": [PAGE]},
        {"elicitations": []},
        {"elicitations": [{**PAGE, "url": "file:///etc/passwd"}]},
        {"elicitations": "all"},
        None,
    ],
    ids=["declined", "none", "no web page", "odd", "nothing"],
)
def test_a_page_that_is_not_opened_fails_the_call(data):
    """The model is told of the error, and the call is not made again."""
    with serving("legacy") as (server, client):
        server.on("tools/call", lambda x: x.error(PAGES_FIRST, "open it", data))
        agent = agent_of(client, ask=lambda question: False)
        assert outcomes(agent.run("Go.")) == ["failed"]
        assert "open it" in told(agent)
        assert len(server.requests("tools/call")) == 1


@ways
def test_cancel_while_a_page_is_shown(way):
    """The call was answered, so nothing is said; the next call works."""
    shown = Gate()
    with serving("legacy", elicit=lambda request: shown.stop_here()) as (
        server,
        client,
    ):
        server.on("tools/call", pages_first)
        client.connect()
        error = cancelled(
            way, lambda token: client.call("echo", token=token), shown.wait_reached
        )
        shown.open()
        assert isinstance(error, Cancelled)
        assert error.started is True
        assert client.call("echo").text == "hi"
        assert server.cancels() == []


def test_pages_without_an_end_have_one():
    """A server that always wants another page does not hold a call for ever."""
    with serving("legacy", elicit=lambda request: True) as (server, client):
        server.on("tools/call", pages_first, times=20)
        with pytest.raises(MCPProtocolError, match="10 times, the limit"):
            client.call("echo")
        assert len(server.requests("tools/call")) == 10


@eras
def test_a_handler_may_call_the_same_server(era):
    """MCP trap 21: the reader is free while a question is answered."""
    with serving(era, elicit=lambda request: {"name": inner()}) as (server, client):
        server.add_tool({"name": "ask", "inputSchema": {"type": "object"}})
        server.on("tools/call", asking_name, name="ask")

        def inner():
            return client.call("echo", {"text": "from inside"}).text

        assert "'name': 'from inside'" in client.call("ask", timeout=LONG).text


# -- a model's response ------------------------------------------------------------


@eras
def test_a_response_for_the_server_counts_towards_the_run(era):
    """The user allows it first; its tokens are tokens of the run."""
    asked = []

    def ask(question):
        asked.append(question)
        return {"allow": True}

    with serving(era, sampling=Sampling(ScriptedModel(["Well."] * 3))) as both:
        server, client = both
        server.on("tools/call", asking_model)
        agent = agent_of(client, ask=ask)
        result = agent.run("Go.")
        assert "Well." in told(agent)
    assert "Say it." in asked[0]
    plain = Agent(scripted(say(call("missing")))).run("Go.")
    assert result.usage.output_tokens > plain.usage.output_tokens


@pytest.mark.parametrize("answer", [{"allow": False}, False, None])
def test_a_response_that_is_not_allowed_is_not_made(answer):
    """The model is not asked, and the server gets an error."""
    model = ScriptedModel(["Well."])
    with serving("legacy", sampling=Sampling(model)) as (server, client):
        server.on("tools/call", refused_model)
        agent = agent_of(client, ask=lambda question: answer)
        agent.run("Go.")
        assert "refused: -1" in told(agent)
    assert not model.requests


@eras
def test_roots_are_the_folders_that_were_given(era, tmp_path):
    """As file URLs; a server is told of nothing else."""
    with serving(era, roots=[tmp_path]) as (server, client):
        server.on("tools/call", lambda x: text_result(x.ask("roots/list")))
        assert tmp_path.as_uri() in client.call("echo").text


# -- cancels -----------------------------------------------------------------------


@ways
@eras
def test_cancel_in_an_elicitation(era, way):
    """MCP trap 10: the question ends without an answer; the session goes on."""
    check_cancel(era, way, asking_name)


@ways
@eras
def test_cancel_in_sampling(era, way):
    """MCP trap 10: the model call ends with the call it was made for."""
    check_cancel(era, way, asking_model)


def check_cancel(era, way, script):
    asked = Gate()

    def elicit(request):
        asked.stop_here()

    sampling = Sampling(ScriptedModel([asked, "never"]), requires_approval=False)
    with serving(era, elicit=elicit, sampling=sampling) as (server, client):
        server.add_tool({"name": "ask", "inputSchema": {"type": "object"}})
        server.on("tools/call", script, name="ask")
        client.connect()
        error = cancelled(
            way, lambda token: client.call("ask", token=token), asked.wait_reached
        )
        asked.open()
        assert isinstance(error, Cancelled)
        assert error.started
        if era == "legacy":
            server.wait_for(server.cancels)
        assert client.call("echo", {"text": "next"}).text == "next"
        first = server.requests("tools/call")[0].id
        assert server.cancels() == ([first] if era == "legacy" else [])
        assert not [one for one in server.received if one.is_response]
        assert len(server.processes) == 1
