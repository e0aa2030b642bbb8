"""Questions and approvals of tools and agents reach the client's user, in both eras."""

import json

import pytest
from support.mcp_clients import envelope, piped

from syncagent import Agent, ToolContext, tool
from syncagent.exceptions import Declined, ProviderUnavailable
from syncagent.mcp.serving import MCPService
from syncagent.mcp.serving.call_state import CallState, StateSeal
from syncagent.testing import ScriptedModel, call, say

ASKING = {"elicitation": {"form": {}}}
removed = []


@tool
def greet(ctx: ToolContext) -> str:
    """Greet by two names."""
    first = ctx.ask("First name?")
    return f"Hello {first} {ctx.ask('Last name?')}"


@tool(requires_approval=lambda arguments, ctx: "It is gone then.")
def remove(path: str) -> str:
    """Remove a file."""
    removed.append(path)
    return f"removed {path}"


@tool
def curious(ctx: ToolContext) -> str:
    """Ask without end."""
    for number in range(1000):
        ctx.ask(f"Question {number}?")
    return "enough"


@tool(requires_auth="github")
def secret(ctx: ToolContext) -> str:
    """Need credentials."""
    return f"used {ctx.credentials}"


FORM = {
    "title": "order",
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 1},
        "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
    },
    "required": ["size"],
}


@tool
def order(ctx: ToolContext) -> str:
    """Ask for a form."""
    try:
        return json.dumps(ctx.ask("What shall it be?", form=FORM))
    except Declined:
        return "declined"


def service(**settings):
    removed.clear()
    return MCPService([greet, remove, curious, secret, order], **settings)


def accept(**content):
    return {"action": "accept", "content": content}


def text_of(result):
    return result["content"][0]["text"]


# -- legacy: the call waits ------------------------------------------------------------


def answer(client, result):
    """Answer the question that comes next; return its parameters."""
    question = client.receive()
    assert question["method"] == "elicitation/create", question
    client.send({"id": question["id"], **result})
    return question["params"]


def test_a_legacy_client_is_asked_in_the_call():
    """Each question is a request to the client; the tool waits."""
    with piped(service()) as client:
        client.initialize(ASKING)
        id = client.call("greet")
        asked = answer(client, {"result": accept(answer="Ada")})
        assert asked["message"] == "First name?"
        assert asked["requestedSchema"]["required"] == ["answer"]
        answer(client, {"result": accept(answer="Lovelace")})
        assert text_of(client.result_of(id)) == "Hello Ada Lovelace"


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"result": {"action": "decline"}}, "the user did not answer"),
        ({"result": {"action": "cancel"}}, "the user did not answer"),
        ({"result": accept(answer=5)}, "makes no sense"),
        ({"result": "Ada"}, "makes no sense"),
        ({"error": {"code": -1, "message": "no window"}}, "no window"),
    ],
)
def test_no_answer_is_an_error_of_the_tool(response, text):
    """The tool, and with it the client's model, learns why."""
    with piped(service()) as client:
        client.initialize(ASKING)
        id = client.call("greet")
        answer(client, response)
        result = client.result_of(id)
        assert result["isError"]
        assert text in text_of(result)


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}])
@pytest.mark.parametrize("name", ["greet", "remove"])
def test_a_client_that_cannot_ask_gets_a_clear_error(name, capabilities):
    """Nothing is called that needs an approval."""
    arguments = {"path": "x"} if name == "remove" else {}
    with piped(service()) as client:
        client.initialize(capabilities)
        legacy = client.result_of(client.call(name, arguments))
        modern = client.result_of(
            client.call(name, arguments, meta=envelope(capabilities))
        )
    for result in (legacy, modern):
        assert result["isError"]
        assert "the client cannot ask its user" in text_of(result)
    assert removed == []


@pytest.mark.parametrize(
    ("result", "is_allowed"),
    [
        (accept(allow=True), True),
        (accept(allow=False), False),
        ({"action": "decline"}, False),
        ({"action": "cancel"}, False),
    ],
)
def test_an_approval_is_asked_for_with_the_arguments(result, is_allowed):
    """Only a yes lets the tool run; the question shows what it would do."""
    with piped(service()) as client:
        client.initialize(ASKING)
        id = client.call("remove", {"path": "/tmp/x"})
        asked = answer(client, {"result": result})
        assert "Allow remove? It is gone then." in asked["message"]
        assert '{"path":"/tmp/x"}' in asked["message"]
        assert client.result_of(id).get("isError", False) is not is_allowed
    assert removed == (["/tmp/x"] if is_allowed else [])


def test_questions_have_a_limit():
    """A tool that asks for ever is stopped, in both eras."""
    with piped(service(max_questions=3)) as client:
        client.initialize(ASKING)
        id = client.call("curious")
        for _ in range(3):
            answer(client, {"result": accept(answer="yes")})
        assert "has asked 3 questions" in text_of(client.result_of(id))
        result, rounds = start(client, "curious"), 0
        while result["resultType"] == "input_required":
            result = repeat(client, "curious", result, accept(answer="yes"))
            rounds += 1
        assert rounds == 3
        assert "has asked 3 questions" in text_of(result)


# -- modern: the call is made again ----------------------------------------------------


def start(client, name, arguments=None, **params):
    id = client.call(name, arguments, meta=envelope(ASKING), **params)
    return client.result_of(id)


def repeat(client, name, result, response, arguments=None):
    """Make the call again with the answer to its one question."""
    [key] = result["inputRequests"]
    return start(
        *(client, name, arguments),
        inputResponses={key: response},
        requestState=result["requestState"],
    )


def test_a_modern_client_is_asked_in_rounds():
    """Each question ends a round; the state brings the earlier answers back."""
    with piped(service()) as client:
        result = start(client, "greet")
        assert result["resultType"] == "input_required"
        [asked] = result["inputRequests"].values()
        assert asked["method"] == "elicitation/create"
        assert asked["params"]["message"] == "First name?"
        result = repeat(client, "greet", result, accept(answer="Ada"))
        assert result["resultType"] == "input_required"
        result = repeat(client, "greet", result, accept(answer="Lovelace"))
        assert result["resultType"] == "complete"
        assert text_of(result) == "Hello Ada Lovelace"


def test_a_round_without_the_answer_asks_again():
    """Other answers are ignored, and the tool is not called in between."""
    with piped(service()) as client:
        result = start(client, "greet")
        id = client.call(
            "greet",
            meta=envelope(ASKING),
            inputResponses={"other": accept(answer="x")},
            requestState=result["requestState"],
        )
        again = client.result_of(id)
        assert again["inputRequests"] == result["inputRequests"]
        result = repeat(client, "greet", again, accept(answer="Ada"))
        assert result["resultType"] == "input_required"


def test_a_modern_approval_takes_two_rounds():
    """A yes that comes before the question does not count."""
    with piped(service()) as client:
        arguments = {"path": "a"}
        early = {"approval": accept(allow=True)}
        result = start(client, "remove", arguments, inputResponses=early)
        assert result["resultType"] == "input_required"
        assert removed == []
        denied = repeat(client, "remove", result, accept(allow=False), arguments)
        assert denied["isError"]
        result = start(client, "remove", arguments)
        allowed = repeat(client, "remove", result, accept(allow=True), arguments)
        assert text_of(allowed) == "removed a"
    assert removed == ["a"]


def broken_states(state):
    """Yield states that do not count."""
    body, _, signature = state.partition(".")
    yield f"{state}-TAMPERED"
    yield f"{body}A.{signature}"
    yield body
    yield ""
    yield "é.é"
    yield 5
    yield "x" * (1 << 21)


def test_a_changed_state_is_refused():
    """A state counts only as it was given, and only for its call."""
    with piped(service()) as client:
        arguments = {"path": "a"}
        result = start(client, "remove", arguments)
        for state in broken_states(result["requestState"]):
            error = refused(client, "remove", arguments, state)
            assert error["code"] == -32602, state
        for name, other in (("remove", {"path": "b"}), ("greet", {})):
            error = refused(client, name, other, result["requestState"])
            assert "another call" in error["message"]
    with piped(service()) as other_server:
        error = refused(other_server, "remove", arguments, result["requestState"])
        assert error["code"] == -32602
    assert removed == []


def refused(client, name, arguments, state):
    id = client.call(
        *(name, arguments),
        meta=envelope(ASKING),
        inputResponses={"approval": accept(allow=True)},
        requestState=state,
    )
    return client.error_of(id)


def test_processes_with_one_secret_share_their_states():
    """A call can be continued by another process of the same server."""
    with piped(service(secret="s" * 32)) as client:
        result = start(client, "remove", {"path": "a"})
    with piped(service(secret="s" * 32)) as client:
        done = repeat(client, "remove", result, accept(allow=True), {"path": "a"})
        assert text_of(done) == "removed a"


def test_a_state_expires():
    """After its time it does not count, however well it is signed."""
    state = CallState(tool="t", digest="d", key="k")
    assert StateSeal("secret").open(StateSeal("secret").close(state)).key == "k"
    with pytest.raises(ValueError, match="expired"):
        StateSeal("secret").open(StateSeal("secret", lifetime=-1.0).close(state))


@pytest.mark.parametrize("responses", [None, 5, [], {"question": 5}, {"question": {}}])
def test_answers_that_are_none_are_refused(responses):
    """The client is told, and the tool is not called with them."""
    with piped(service()) as client:
        result = start(client, "greet")
        id = client.call(
            "greet",
            meta=envelope(ASKING),
            inputResponses=responses,
            requestState=result["requestState"],
        )
        assert client.error_of(id)["code"] == -32602


# -- forms -----------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize(
    ("response", "text"),
    [
        (accept(size=2), '{"size": 2, "colour": "red"}'),
        (accept(size=2, colour="blue"), '{"size": 2, "colour": "blue"}'),
        ({"action": "decline"}, "declined"),
        ({"action": "cancel"}, "the user did not answer"),
    ],
)
def test_a_form_is_filled_in_by_the_client(era, response, text):
    """Defaults are filled in, and a no is told from no answer."""
    with piped(service()) as client:
        if era == "legacy":
            client.initialize(ASKING)
            id = client.call("order")
            schema = answer(client, {"result": response})["requestedSchema"]
            result = client.result_of(id)
        else:
            first = start(client, "order")
            schema = first["inputRequests"]["order"]["params"]["requestedSchema"]
            result = repeat(client, "order", first, response)
        assert schema == {name: FORM[name] for name in FORM if name != "title"}
        assert text_of(result) == text


@pytest.mark.parametrize("content", [{}, {"size": 0}, {"size": 1, "colour": "green"}])
def test_a_form_that_does_not_fit_is_refused(content):
    """The tool never sees values that break the form."""
    with piped(service()) as client:
        first = start(client, "order")
        id = client.call(
            "order",
            meta=envelope(ASKING),
            inputResponses={"order": accept(**content)},
            requestState=first["requestState"],
        )
        assert client.error_of(id)["code"] == -32602
        client.initialize(ASKING)
        id = client.call("order")
        answer(client, {"result": accept(**content)})
        assert "makes no sense" in text_of(client.result_of(id))


# -- credentials -----------------------------------------------------------------------


def test_clients_are_never_asked_for_credentials():
    """They come from the server's own function, or the call is refused."""
    with piped(service()) as client:
        result = start(client, "secret")
        assert "needs credentials of github" in text_of(result)
    with piped(
        service(authenticate=lambda request: f"{request.provider} key")
    ) as client:
        assert text_of(start(client, "secret")) == "used github key"


# -- agents ----------------------------------------------------------------------------


def agent(*script):
    model = ScriptedModel([*script])
    return Agent(model, tools=[remove, greet], name="helper", system="Top secret.")


def agent_service(*script):
    removed.clear()
    return MCPService(agent(*script))


def test_an_agent_is_a_tool_with_a_prompt():
    """Its system prompt is not shown to strangers; its text is the result."""
    with piped(agent_service(say("Done."))) as client:
        [entry] = client.result_of(client.request("tools/list", {"_meta": envelope()}))[
            "tools"
        ]
        assert entry["name"] == "helper"
        assert list(entry["inputSchema"]["properties"]) == ["prompt"]
        assert "secret" not in json.dumps(entry)
        assert text_of(start(client, "helper", {"prompt": "Go."})) == "Done."
        assert start(client, "helper", {"prompt": " "})["isError"]
        assert start(client, "helper")["isError"]


def test_an_agent_reports_the_tools_it_calls():
    """The client sees that something happens."""
    script = (say("", call("remove", {"path": "x"})), say("Done."))
    removed.clear()
    allowing = Agent(
        ScriptedModel([*script]),
        tools=[remove],
        name="helper",
        approve=lambda asked: True,
    )
    with piped(MCPService(allowing)) as client:
        id = client.call("helper", {"prompt": "Go."}, meta=envelope(progressToken=1))
        assert client.receive()["params"]["message"] == "calls remove"
        assert text_of(client.result_of(id)) == "Done."


SCRIPT = (say("", call("remove", {"path": "x"})), say("Done."))


def test_an_agent_asks_a_legacy_client():
    """The approval of a tool of the agent is asked for in the call."""
    with piped(agent_service(*SCRIPT)) as client:
        client.initialize(ASKING)
        id = client.call("helper", {"prompt": "Go."})
        assert (
            "Allow remove?" in answer(client, {"result": accept(allow=True)})["message"]
        )
        assert text_of(client.result_of(id)) == "Done."
    assert removed == ["x"]


@pytest.mark.parametrize("is_allowed", [True, False])
def test_an_agent_asks_a_modern_client(is_allowed):
    """The run is parked between the rounds, and continues with the answer, once."""
    with piped(agent_service(*SCRIPT)) as client:
        arguments = {"prompt": "Go."}
        first = start(client, "helper", arguments)
        assert first["resultType"] == "input_required"
        response = accept(allow=is_allowed)
        done = repeat(client, "helper", first, response, arguments)
        assert text_of(done) == "Done."
        id = client.call(
            *("helper", arguments),
            meta=envelope(ASKING),
            inputResponses={},
            requestState=first["requestState"],
        )
        assert "call anew" in client.error_of(id)["message"]
    assert removed == (["x"] if is_allowed else [])


def test_a_bad_answer_does_not_lose_the_run_of_an_agent():
    """The client may answer again."""
    with piped(agent_service(*SCRIPT)) as client:
        arguments = {"prompt": "Go."}
        first = start(client, "helper", arguments)
        [key] = first["inputRequests"]
        id = client.call(
            *("helper", arguments),
            meta=envelope(ASKING),
            inputResponses={key: 5},
            requestState=first["requestState"],
        )
        assert client.error_of(id)["code"] == -32602
        done = repeat(client, "helper", first, accept(allow=True), arguments)
        assert text_of(done) == "Done."


def test_an_agent_whose_client_cannot_ask_is_refused():
    """The run ends, and the error names the tool."""
    with piped(agent_service(*SCRIPT)) as client:
        result = client.result_of(
            client.call("helper", {"prompt": "Go."}, meta=envelope())
        )
        assert result["isError"]
        assert "before it can call remove" in text_of(result)


def test_the_error_of_a_model_stays_here(caplog):
    """Clients learn its kind; the log has the text."""
    error = ProviderUnavailable("https://internal.example/ is down", status=503)
    with piped(agent_service(error)) as client:
        result = start(client, "helper", {"prompt": "Go."})
        assert text_of(result) == "the agent failed: ProviderUnavailable"
    assert "internal.example" in caplog.text


def test_calls_of_an_agent_do_not_see_each_other():
    """Each call is a conversation of its own."""
    seen = []

    def respond(messages):
        seen.append(len(messages))
        return say("Done.")

    with piped(MCPService(Agent(ScriptedModel(respond), name="helper"))) as client:
        for _ in range(3):
            start(client, "helper", {"prompt": "Go."})
    assert seen == [1, 1, 1]


def test_a_sub_agent_of_a_tool_asks_a_legacy_client():
    """Its questions are those of the call."""

    @tool
    def delegate(ctx: ToolContext) -> str:
        return ctx.agent(agent(*SCRIPT), "Go.").text

    removed.clear()
    with piped(MCPService(delegate)) as client:
        client.initialize(ASKING)
        id = client.call("delegate")
        answer(client, {"result": accept(allow=True)})
        assert text_of(client.result_of(id)) == "Done."
    assert removed == ["x"]
