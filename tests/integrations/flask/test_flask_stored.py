"""A Flask application whose runs are in a store."""

import pytest
from flask import Flask, current_app
from flask_site import Visitor, events_of, is_own, make_site, user

from syncagent import Agent, tool
from syncagent.exceptions import ConfigurationError
from syncagent.integrations.flask import SyncAgent
from syncagent.integrations.web.stored_runs import StoredRuns
from syncagent.stores import RunStore
from syncagent.testing import ScriptedModel, call, say


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture
def make_app():
    """Return a function that makes an application, whose runs are closed at the end."""
    apps = []

    def make_app(config=None, **settings):
        app = Flask("stored")
        app.config.update(config or {})
        agents = SyncAgent(app, owner_of=user, authorize=is_own, **settings)
        app.register_blueprint(agents.create_blueprint(), url_prefix="/agent")
        apps.append(app)
        return app

    yield make_app
    for app in apps:
        app.extensions["syncagent"].runs.shutdown(0.0)


def test_a_run(make_app, url):
    """make_agent gets the run, and works without a request, in the app's context."""
    seen = []

    @tool(isolation="thread")
    def where() -> str:
        """Tell the application."""
        return current_app.name

    def make_agent(run):
        seen.append((run.owner, run.agent, run.conversation, run.labels))
        seen.append(current_app.name)
        model = ScriptedModel([say(call("where", {})), "It is there."])
        return Agent(model, tools=[where])

    visitor = Visitor(make_app(make_agent=make_agent, store=url))
    id = visitor.start(agent="a", conversation="c", options={"n": 1})
    view = visitor.wait(id)
    assert seen == [("anna", "a", "c", {"n": 1}), "stored"]
    assert view["text"] == "It is there."
    events = events_of(visitor.get(f"runs/{id}/events").text)
    assert [
        data["result"]["content"] for name, data in events if name == "tool_finished"
    ]
    assert "stored" in str(events)


def test_a_conversation(make_app, url):
    """The second run of a conversation continues the first, with another agent."""

    def make_agent(run):
        return Agent(ScriptedModel([f"Run {run.prompt.content[0].text}."]))

    app = make_app(make_agent=make_agent, store=url)
    visitor = Visitor(app)
    for prompt in ("1", "2"):
        id = visitor.start(prompt, conversation="c")
        visitor.wait(id)
    with app.app_context():
        run = app.extensions["syncagent"].runs.store.get(id)
    assert len(run.result.messages) == 4


def test_the_setting(make_app, url):
    """SYNCAGENT_STORE in app.config does the same as store=."""
    app = make_app({"SYNCAGENT_STORE": url}, make_agent=lambda run: None)
    assert isinstance(app.extensions["syncagent"].runs, StoredRuns)
    with pytest.raises(ConfigurationError, match="keep one"):
        make_app({"SYNCAGENT_STORE": url}, make_agent=lambda run: None, store=url)


def test_a_store_of_its_own(make_app, url):
    """A RunStore has its own make_agent; tools get the context of the application."""
    store = RunStore(url, lambda run: Agent(ScriptedModel([current_app.name])))
    visitor = Visitor(make_app(store=store))
    assert visitor.wait(visitor.start())["text"] == "stored"
    with pytest.raises(ConfigurationError, match="of its own"):
        make_app(store=store, make_agent=lambda run: None)


def test_without_a_store(url):
    """Without a store make_agent is called with the request, as before."""
    app = make_site(ScriptedModel(["Hello."]))
    visitor = Visitor(app)
    view = visitor.wait(visitor.start())
    assert (view["text"], view["is_stored"]) == ("Hello.", False)


def test_an_agent_that_cannot_be_made(make_app, url, caplog):
    """The run fails, the log says why, and the client is told no details."""

    def make_agent(run):
        raise OSError("no route to dbhost")

    visitor = Visitor(make_app(make_agent=make_agent, store=url))
    view = visitor.wait(visitor.start())
    assert (view["state"], view["error"]["code"]) == ("failed", "failed")
    assert "dbhost" not in str(view)
    assert "dbhost" in caplog.text
