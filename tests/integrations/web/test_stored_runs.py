"""The runs of a store, in this process: limits, errors, streams, and the end."""

import asyncio  # noqa: TID251
import json
import logging
import threading

import pytest
from support.threads import LONG, until
from support.web.runs import ANNA, all_of, owned, parse

from syncagent import Agent, tool
from syncagent.exceptions import ConfigurationError, RateLimited
from syncagent.integrations.web.asgi import AsyncEventStream
from syncagent.integrations.web.bodies import AnswerBody, StartRequest
from syncagent.integrations.web.deployment import warn_about_server
from syncagent.integrations.web.errors import Refused
from syncagent.integrations.web.runs import Runs
from syncagent.integrations.web.settings import WebSettings, find_store
from syncagent.integrations.web.stored_runs import StoredRuns
from syncagent.integrations.web.views import Views, WebRequest
from syncagent.stores import RunStore
from syncagent.testing import Gate, ScriptedModel, call, say

JSON = {"content_type": "application/json"}


@pytest.fixture
def make(tmp_path):
    """Return a function that makes runs whose agent says this."""
    made = []

    def make(*script, tools=(), authorize=owned, **settings):
        url = f"sqlite:///{tmp_path}/runs-{len(made)}.db"
        model = ScriptedModel(list(script))
        store = RunStore(url, lambda run: Agent(model, tools=tools), timeout=0.5)
        made.append(StoredRuns(store, authorize, **{"heartbeat": LONG, **settings}))
        return made[-1]

    yield make
    for runs in made:
        runs.shutdown(0.0)


def submit(runs, owner=ANNA, **more):
    return runs.submit(StartRequest("Go on.", **more), owner=owner)


def silent(make, **settings):
    """Return runs, and a run of them whose model says nothing."""
    gate = Gate()
    runs = make(gate, "never", **settings)
    run = submit(runs)
    gate.wait_reached()
    return runs, run


def refused(function, *args, **more):
    """Return the status and the code of an error."""
    with pytest.raises(Refused) as error:
        function(*args, **more)
    return error.value.status, error.value.code


# -- the run -----------------------------------------------------------------------


def test_what_the_owner_sees(make):
    """A stored run has the fields of any other, and says that it is stored."""
    runs = make("Hello.")
    run = submit(runs, agent="a", conversation="c", options={"tone": "kind"})
    events = all_of(runs.follow(run))
    number, name, view = events[-1]
    assert (number, name) == (view["events"] + 1, "end")
    assert (view["text"], view["stop_reason"]) == ("Hello.", "end_turn")
    assert (view["agent"], view["conversation"]) == ("a", "c")
    assert (view["prompt"], view["is_stored"]) == ("Go on.", True)
    assert view["state"] == "done"
    assert not view["is_live"]
    seen = runs.get(run.id, ANNA)
    assert json.loads(json.dumps(view)).keys() >= {"usage", "turns", "tool_outcomes"}
    assert seen.record.labels == {"tone": "kind"}
    assert runs.follow(seen, after=number).is_empty
    assert run.id not in repr(seen)


def test_states(make):
    """A run is queued, runs, waits and is done; a question names its tool."""

    @tool(requires_approval=True)
    def launch() -> str:
        """Launch it."""
        return "launched"

    runs = make(say(call("launch", {})), "Done.", tools=[launch])
    run = submit(runs)
    with runs.follow(run) as stream:
        until(lambda: b"interrupt_raised" in next(stream))
    view = runs.get(run.id, ANNA).view()
    assert (view.state, view.tool) == ("waiting_for_approval", "launch")
    (question,) = view.interrupts
    said = runs.answer(runs.get(run.id, ANNA), {question.id: AnswerBody(allow=True)})
    assert said.answers == {question.id: "taken"}
    assert all_of(runs.follow(run))[-1][2]["text"] == "Done."
    again = runs.answer(runs.get(run.id, ANNA), {question.id: AnswerBody(allow=True)})
    assert again.answers == {question.id: "over"}


def test_no_private_details(make):
    """The error of a run and of a tool is told without its message."""

    @tool
    def fail() -> str:
        """Fail."""
        raise OSError("no route to dbhost")

    runs = make(say(call("fail", {})), RateLimited("key sk-12345678"), tools=[fail])
    run = submit(runs)
    said = b"".join(runs.follow(run))
    assert b"dbhost" not in said
    assert b"sk-1234" not in said
    view = parse(said)[-1][2]
    assert view["error"]["code"] == "rate_limited"
    assert view["state"] == "failed"


def test_there_is_no_timeline(make):
    """A timeline is 404, as for any run that is not recorded."""
    runs = make("Hello.")
    run = submit(runs)
    response = Views(runs).timeline(WebRequest(original=ANNA), run.id)
    assert response.status == 404
    assert b"not_recorded" in response.body


# -- who may, and how many ---------------------------------------------------------


def test_runs_of_others(make):
    """The same 404 for a run of another owner, for none, and for no id at all."""
    runs, run = silent(make)
    for id in (run.id, "0" * 48, "", "\0", "%", "é" * 48):
        assert refused(runs.get, id, "bert") == (404, "not_found")
    assert runs.list("bert") == []
    assert [each.id for each in runs.list(ANNA)] == [run.id]
    assert [each.id for each in runs.list(ANNA, owner=ANNA)] == [run.id]
    assert runs.list(ANNA, owner="bert") == []


def test_without_authorize(make):
    """Nothing is shown if no function says to whom."""
    runs, run = silent(make, authorize=None)
    assert refused(runs.get, run.id, ANNA) == (403, "not_set_up")
    assert refused(runs.list, ANNA) == (403, "not_set_up")


def test_too_many_runs(make):
    """The limit of live runs of an owner is that of all processes."""
    runs, _ = silent(make, max_per_owner=1)
    assert refused(submit, runs) == (429, "too_many_runs")


def test_too_many_followers(make):
    """One stream too many is refused, and counts no more."""
    runs, run = silent(make, max_followers=2, max_followers_per_owner=3)
    first, second = runs.follow(run), runs.follow(run)
    for _ in range(3):
        assert refused(runs.follow, run) == (429, "too_many_followers")
    runs.check_followers(ANNA)
    first.close()
    runs.follow(run).close()
    second.close()


def test_credentials_stay_outside(make):
    """Credentials are refused before anything looks at them."""
    runs, run = silent(make)
    said = runs.answer(run, {"auth:1": AnswerBody(credentials="hunter2")})
    assert said.answers == {"auth:1": "refused"}
    assert "would have to store them" in said.messages["auth:1"]


def test_an_owner_is_needed(make):
    """A run without an owner would be everybody's."""
    with pytest.raises(ConfigurationError, match="owner must be"):
        submit(make("x"), owner="")


# -- streams -----------------------------------------------------------------------


def test_streams_end_with_the_process(make):
    """cancel_all() ends streams without an end, cancels nothing, and refuses."""
    runs, run = silent(make)
    stream = runs.follow(run)
    assert b"event: run" in next(stream)
    ended = threading.Event()

    def read():
        assert b"event: end" not in b"".join(stream)
        ended.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert runs.cancel_all("SIGTERM", is_last=True) == 0
    assert ended.wait(LONG)
    reader.join(LONG)
    assert runs.store.get(run.id).is_live
    assert refused(submit, runs) == (503, "shutting_down")
    assert refused(runs.get, run.id, ANNA) == (503, "shutting_down")


def test_a_forgotten_run(make):
    """The stream of a run that was deleted ends without an end."""
    runs, run = silent(make)
    with runs.follow(run) as stream:
        assert b"event: run" in next(stream)
        assert runs.store.forget(ANNA) == 1
        assert b"event: end" not in b"".join(stream)
    assert refused(runs.get, run.id, ANNA) == (404, "not_found")


def test_an_event_loop_gets_the_same(make):
    """Under ASGI the events are the same, and the loop is free while it waits."""
    gate = Gate()
    runs = make("Once ", gate, "upon a time.")
    run = submit(runs)
    ticks = []

    async def follow():
        stream = AsyncEventStream(runs.follow(run))

        async def tick():
            while len(ticks) < 5:
                ticks.append(await asyncio.sleep(0.01))
            gate.open()

        ticking = asyncio.create_task(tick())
        pieces = [piece async for piece in stream]
        await ticking
        return b"".join(pieces)

    said = asyncio.run(asyncio.wait_for(follow(), LONG))
    events = [event for event in parse(said) if event[0]]
    assert events == [event for event in all_of(runs.follow(run)) if event[0]]


def test_unfollowed_seconds(make):
    """on_disconnect="cancel" is at least 5 seconds, and at least the lease."""
    for grace, seconds in ((0.0, 15.0), (30.0, 30.0)):
        runs = make("x", on_disconnect="cancel", grace=grace)
        assert runs._unfollowed_seconds == pytest.approx(seconds)
    assert make("x")._unfollowed_seconds is None


# -- settings ----------------------------------------------------------------------


def test_settings(make, tmp_path):
    """A store changes the default of on_disconnect, and the kind of runs."""
    store = make("x").store
    stored = WebSettings().make_runs(owned, store)
    assert isinstance(stored, StoredRuns)
    assert stored._unfollowed_seconds is None
    cancelling = WebSettings(on_disconnect="cancel").make_runs(owned, store)
    assert isinstance(cancelling, StoredRuns)
    assert cancelling._unfollowed_seconds is not None
    with WebSettings().make_runs(owned) as here:
        assert isinstance(here, Runs)


def test_find_store(make):
    """A URL needs a make_agent, and a RunStore has one."""
    store = make("x").store
    assert find_store(None, None) is None
    assert find_store(store, None) is store
    for given, make_agent, words in (
        (store, print, "of its own"),
        ("sqlite:///x.db", None, "needs a function make_agent"),
        (5, print, "must be a URL"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            find_store(given, make_agent)
    with pytest.raises(ConfigurationError, match="must be a RunStore"):
        StoredRuns("sqlite:///x.db")
    with pytest.raises(ConfigurationError, match="make_agent of its own"):
        Views(make("x"), lambda request, start: None)


@pytest.mark.parametrize("field", ["agent", "conversation"])
def test_names_that_no_store_takes(make, field):
    """They are the client's mistake, and not the server's."""
    views = Views(make("x"), owner_of=lambda request: ANNA)
    body = f'{{"prompt": "Go.", "{field}": "a\\u0000b"}}'.encode()
    response = views.start(WebRequest(original=None, environ={}, body=body, **JSON))
    assert response.status == 422


def test_several_workers_are_fine(caplog):
    """With a store no warning is given about several processes."""
    caplog.set_level(logging.WARNING, "syncagent.web")
    environ = {
        "wsgi.version": (1, 0),
        "SERVER_SOFTWARE": "gunicorn",
        "wsgi.multiprocess": True,
        "wsgi.multithread": False,
    }
    warn_about_server(environ, has_store=True)
    assert caplog.text == ""


def test_the_owner_comes_from_the_request(make):
    """The list of a client is that of its own runs, also among many others'."""
    gate = Gate()
    runs = make(*[gate] * 130, max_per_owner=200)
    own = submit(runs, owner="anna")
    for _ in range(120):
        submit(runs, owner="bert")
    views = Views(runs, owner_of=lambda request: request)
    listed = json.loads(views.list(WebRequest(original=ANNA)).body)["runs"]
    assert [run["id"] for run in listed] == [own.id]
    gate.open()
