"""The endpoints of the blueprint, with Flask's own client."""

import io
from urllib.parse import quote

import pytest
from flask import Flask
from flask_site import ANNA, BERT, STREAM, Visitor, events_of, make_site

from syncagent import Agent, ToolContext, tool
from syncagent.exceptions import ConfigurationError
from syncagent.integrations.flask import SyncAgent
from syncagent.testing import Gate, ScriptedModel, call, say

HTML = "<script>window.hacked = 1</script>"


@tool(requires_approval=True)
def launch(where: str) -> str:
    """Launch it."""
    return f"launched to {where}"


@pytest.fixture
def gate():
    """Where a model stops that is to answer."""
    return Gate()


def launching():
    return ScriptedModel([say(call("launch", {"where": "the moon"})), "Well."])


def test_begun_as_json():
    """POST answers at once with where the run is, and GET with what came of it."""
    anna = Visitor(make_site(ScriptedModel(["Hello."])))
    response = anna.post("runs", {"prompt": "Say hello.", "conversation": "c1"})
    assert response.status_code == 202
    assert response.headers["Cache-Control"] == "no-store"
    view = anna.wait(response.json["id"])
    assert (view["text"], view["stop_reason"]) == ("Hello.", "end_turn")
    assert (view["prompt"], view["conversation"]) == ("Say hello.", "c1")


def test_begun_as_a_stream():
    """A client that accepts a stream gets all events."""
    anna = Visitor(make_site(ScriptedModel(["Hello."])))
    response = anna.post("runs", {"prompt": "Go."}, **STREAM)
    assert response.mimetype == "text/event-stream"
    assert response.headers["X-Accel-Buffering"] == "no"
    events = events_of(response.text)
    assert [events[0][0], events[-1][0]] == ["run", "end"]
    text = "".join(data["text"] for name, data in events if name == "text_delta")
    assert text == events[-1][1]["text"] == "Hello."
    assert events[0][1]["id"] == response.headers["X-Run-Id"]


def test_stop(gate):
    """202 ends a live run, and 409 says that it had ended before."""
    anna = Visitor(make_site(ScriptedModel([gate])))
    id = anna.start()
    gate.wait_reached()
    response = anna.post(f"runs/{id}/cancel", {"reason": "enough"})
    assert (response.status_code, response.json["is_cancelled"]) == (202, True)
    view = anna.wait(id)
    assert view["cancellation"]["reason"] == "enough"
    assert view["stop_reason"] == "cancelled"
    assert anna.post(f"runs/{id}/cancel").status_code == 409


@pytest.mark.parametrize("call_id", ["call_1", "a/b c", "ä?"])
def test_stop_one_call(gate, call_id):
    """202 stops the call and the run goes on; 409 if no such call runs."""

    @tool(isolation="thread")
    def job(ctx: ToolContext) -> str:
        """Stand there."""
        gate.stop_here(token=ctx.token)
        return "did"

    script = [say(call("job", call_id=call_id)), "Without it."]
    anna = Visitor(make_site(ScriptedModel(script), tools=[job]))
    id = anna.start()
    gate.wait_reached()
    path = f"runs/{id}/calls/{quote(call_id, safe='')}/cancel"
    assert anna.post(f"runs/{id}/calls/other/cancel").status_code == 409
    assert anna.post(path, {"mode": "now"}).status_code in (400, 422)
    response = anna.post(path, {"reason": "not that"})
    assert response.status_code == 202
    assert response.json == {"id": id, "call_id": call_id, "is_cancelled": True}
    view = anna.wait(id)
    assert (view["stop_reason"], view["text"]) == ("end_turn", "Without it.")
    assert view["tool_outcomes"][0]["outcome"] == "interrupted"
    assert view["tool_outcomes"][0]["cancelled"] is True
    assert anna.post(path).status_code == 409


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", "runs/{}"), ("GET", "runs/{}/events"), ("GET", "runs/{}/timeline")),
        *(("POST", "runs/{}/cancel"), ("POST", "runs/{}/answers")),
        ("POST", "runs/{}/calls/c/cancel"),
    ],
)
def test_foreign_and_unknown_are_the_same(gate, method, path):
    """Issue 8: a client cannot tell whether another user's run exists."""
    site = make_site(ScriptedModel([gate]))
    anna, bert = Visitor(site), Visitor(site, BERT)
    id = anna.start()
    body = {"answers": {"x": {"allow": True}}} if path.endswith("answers") else {}

    def reply(id):
        if method == "GET":
            return bert.get(path.format(id))
        return bert.post(path.format(id), body)

    foreign, unknown = reply(id), reply("nobody")
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.data == unknown.data
    assert bert.get("runs").json == {"runs": []}
    assert anna.get(f"runs/{id}").json["is_live"]
    anna.post(f"runs/{id}/cancel")
    anna.wait(id)


def test_an_approval_with_other_arguments():
    """An approved tool runs, with the edited arguments."""
    anna = Visitor(make_site(launching(), tools=[launch]))
    id = anna.start()
    answer = {"allow": True, "arguments": {"where": "Mars"}}
    answers = {"answers": {anna.ask(id): answer}}
    assert anna.post(f"runs/{id}/answers", answers).json["answers"].popitem()[1] == (
        "taken"
    )
    view = anna.wait(id)
    assert view["tool_outcomes"][0]["outcome"] == "done"
    assert anna.post(f"runs/{id}/answers", answers).status_code == 409


def test_a_denial():
    """A denied tool does not run, and the model gets the denial."""
    anna = Visitor(make_site(launching(), tools=[launch]))
    id = anna.start()
    answers = {"answers": {anna.ask(id): {"allow": False, "reason": "No."}}}
    assert anna.post(f"runs/{id}/answers", answers).status_code == 200
    view = anna.wait(id)
    assert view["tool_outcomes"][0]["outcome"] == "denied"


@pytest.mark.parametrize("missing", ["owner_of", "authorize"])
def test_nobody_may_by_default(missing):
    """Issue 8: without these functions every request is refused, with the reason."""
    anna = Visitor(make_site(ScriptedModel(["Hello."]), functions={missing: None}))
    response = anna.post("runs", {"prompt": "Go."}) if missing == "owner_of" else None
    response = response or anna.get("runs")
    assert response.status_code == 403
    assert missing in response.json["error"]["message"]


def test_only_a_true_yes_is_one():
    """Anything but True from authorize, such as a user, grants no access."""
    functions = {"authorize": lambda request, run: "anna"}
    anna = Visitor(make_site(ScriptedModel(["Hello."]), functions=functions))
    assert anna.get(f"runs/{anna.start()}").status_code == 404


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        (405, {"method": "GET", "path": "/agent/runs/x/cancel"}),
        (405, {"method": "GET", "path": "/agent/runs/x/answers"}),
        (405, {"method": "HEAD", "path": "/agent/runs/x/events"}),
        (413, {"method": "POST", "path": "/agent/runs", "data": b" " * 2000}),
        (415, {"method": "POST", "path": "/agent/runs", "data": b"prompt=x"}),
        (400, {"method": "POST", "path": "/agent/runs", "data": b"{", "json": True}),
        (403, {"method": "POST", "path": "/agent/runs", "site": "cross-site"}),
    ],
)
def test_what_is_refused(status, sent):
    """Issue 8: POST only where something changes, bounded, JSON, from this site."""
    site = make_site(ScriptedModel(["Hello."]), max_body=1000)
    headers = {"X-User": "anna"}
    if "site" in sent:
        headers["Sec-Fetch-Site"] = sent.pop("site")
    kind = "application/json" if sent.pop("json", False) else None
    response = site.test_client().open(**sent, headers=headers, content_type=kind)
    assert response.status_code == status


@pytest.mark.parametrize(
    ("trusted", "origin", "status"),
    [
        ([], "http://localhost", 202),
        ([], "https://app.example.com", 403),
        (["https://app.example.com"], "https://app.example.com", 202),
    ],
)
def test_origins(trusted, origin, status):
    """L7: pages of other origins are refused, unless the settings trust them."""
    site = make_site(ScriptedModel(["Hello."]), trusted_origins=trusted)
    anna = Visitor(site)
    response = anna.post("runs", {"prompt": "Go."}, Origin=origin)
    assert response.status_code == status
    if status == 202:
        anna.wait(response.json["id"])


def test_an_error_tells_nothing():
    """Issue 8: a run that fails has an end, without what its error says."""
    model = ScriptedModel([ValueError("our host, key sk-12345678")])
    anna = Visitor(make_site(model))
    response = anna.post("runs", {"prompt": "Go."}, **STREAM)
    name, view = events_of(response.text)[-1]
    assert (name, view["error"]["code"]) == ("end", "failed")
    timeline = anna.get(f"runs/{view['id']}/timeline").text
    assert "failed" in timeline
    for text in (response.text, timeline):
        assert "our host" not in text
        assert "sk-" not in text


@pytest.mark.parametrize("is_shown", [False, True])
def test_what_a_tool_raises_is_for_the_model(is_shown):
    """Issue 8: neither the stream nor the timeline tells it, unless that is wanted."""

    @tool
    def fail() -> str:
        """Fail."""
        raise ValueError("our host")

    model = ScriptedModel([say(call("fail")), "Oh."])
    anna = Visitor(make_site(model, tools=[fail], show_tool_errors=is_shown))
    response = anna.post("runs", {"prompt": "Go."}, **STREAM)
    timeline = anna.get(f"runs/{response.headers['X-Run-Id']}/timeline").text
    assert "Oh." in timeline
    assert ("our host" in response.text) == is_shown
    assert ("our host" in timeline) == is_shown


def test_a_stream_that_nobody_reads_is_closed(gate):
    """Issue 8: also before its first step, and then the run ends."""
    anna = Visitor(make_site(ScriptedModel([gate]), grace=0))
    response = anna.post("runs", {"prompt": "Go."}, **STREAM)
    response.close()
    view = anna.wait(response.headers["X-Run-Id"])
    assert view["cancellation"]["origin"] == "disconnect"


def test_a_timeline_is_a_page_that_does_nothing():
    """The texts of a run are no markup in its timeline, and no script may run."""
    anna = Visitor(make_site(ScriptedModel([HTML])))
    id = anna.start(HTML)
    anna.wait(id)
    response = anna.get(f"runs/{id}/timeline")
    assert response.mimetype == "text/html"
    assert "sandbox" in response.headers["Content-Security-Policy"]
    assert "&lt;script&gt;" in response.text
    assert HTML not in response.text


@pytest.mark.parametrize(("recording", "status"), [(0, 404), (600, 200)])
def test_what_is_recorded_is_bounded(recording, status):
    """A run that was recorded in part has a timeline of that part."""
    model = ScriptedModel(["word " * 2000])
    anna = Visitor(make_site(model, recording=recording))
    id = anna.start()
    anna.wait(id)
    response = anna.get(f"runs/{id}/timeline")
    assert response.status_code == status
    assert len(response.data) < 30_000


# -- setting it up -----------------------------------------------------------------


def test_several_applications():
    """One extension serves several applications, and each has its own runs."""
    agents = SyncAgent(
        make_agent=lambda request, start: Agent(ScriptedModel(["Hello."])),
        owner_of=lambda request: "all",
        authorize=lambda request, run: True,
    )
    sites = [Flask("one"), Flask("two")]
    for app in sites:
        agents.init_app(app)
        app.register_blueprint(agents.create_blueprint(), url_prefix="/agent")
    one, two = map(Visitor, sites)
    one.wait(one.start())
    assert len(one.get("runs").json["runs"]) == 1
    assert two.get("runs").json["runs"] == []
    with sites[0].app_context():
        first = agents.runs
    with sites[1].app_context():
        assert agents.runs is not first


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"SYNCAGENT_GARCE": 5}, "garce"),
        ({"SYNCAGENT_GRACE": "soon"}, "grace"),
        ({"SYNCAGENT_OPERATOR_TOKEN": "1234"}, "16 characters"),
        ({"SYNCAGENT_ON_DISCONNECT": "stay"}, "on_disconnect"),
    ],
)
def test_settings_that_do_not_work(config, words):
    """An unknown or invalid setting is reported at once."""
    app = Flask("site")
    app.config.update(config)
    with pytest.raises(ConfigurationError, match=words):
        SyncAgent(app)


def test_what_is_missing_is_said():
    """Twice, without an agent, or without the extension: each has its words."""
    app = Flask("site")
    agents = SyncAgent(app)
    with pytest.raises(ConfigurationError, match="already"):
        agents.init_app(app)
    with pytest.raises(ConfigurationError, match="make_agent"):
        agents.create_blueprint()
    with Flask("other").app_context(), pytest.raises(ConfigurationError, match="init"):
        agents.runs.list(None)


def test_what_is_too_large_in_chunks():
    """A body without a length is refused, too, and not cut off where the limit is."""
    site = make_site(ScriptedModel(["Hello."]), max_body=1000)
    for size, status in ((1001, 413), (1000, 202)):
        body = b'{"prompt": "Go."}'.ljust(size)
        response = site.test_client().post(
            "/agent/runs",
            input_stream=io.BytesIO(body),
            content_type="application/json",
            headers=ANNA,
            environ_overrides={"wsgi.input_terminated": True, "CONTENT_LENGTH": ""},
        )
        assert response.status_code == status, response.text
