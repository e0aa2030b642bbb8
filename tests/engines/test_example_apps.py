"""The example applications with workers: a user stops, approves, kills and returns."""

import importlib.util
import subprocess
import time

import pytest
from example_app import DJANGO, FLASK, ExampleApp, newest_python, servers
from visitor import Visitor, until_event

from syncagent.cli.demo.model import STORY

pytestmark = [pytest.mark.engines, pytest.mark.timeout(300)]

#: Seconds from a click on Stop to the end that a user sees, on a busy machine.
SOON = 5.0


def has(*packages):
    """True if packages are installed in the environment of the tests."""
    return all(importlib.util.find_spec(name) is not None for name in packages)


def flask_app(folder, request):
    if not has("celery", "redis", "flask", "gunicorn"):
        pytest.skip("not installed: Celery")
    app = ExampleApp(folder, FLASK, **servers(request))
    app.copy()
    return app


def django_app(folder, request):
    import django

    app = ExampleApp(folder, DJANGO)
    if has("django_tasks_db") and django.VERSION >= (6,):
        app.copy()
        return app
    python = newest_python((3, 12))
    if python is None:
        pytest.skip("Django 6 is not installed, and there is no Python 3.12")
    app.clone(python)
    try:
        app.install()
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        pytest.skip("Django 6 is not installed, and cannot be installed here")
    return app


@pytest.fixture(scope="module", params=[flask_app, django_app])
def app(request, tmp_path_factory):
    """Yield each application, started."""
    with request.param(tmp_path_factory.mktemp("app") / "project", request) as app:
        app.start()
        yield app


@pytest.fixture
def anna(app):
    return Visitor(app.url)


def test_a_conversation(app, anna):
    """A run is followed to its end, and the next one knows what was said."""
    assert "You said: hello" in anna.say("hello")
    assert "hello" in anna.say("what did I say?")


def test_stop_reaches_the_worker(app, anna):
    """Stop in another tab ends the run in the worker, and the worker takes others."""
    id = anna.start("work 60 seconds")
    events = anna.events(id)
    until_event(events, "tool_progress")
    assert app.worker.has(app.pid_of(id))
    assert Visitor(app.url).ask(f"runs/{id}/cancel", {}).status_code == 404
    begun = time.monotonic()
    assert Visitor(app.url, of=anna).ask(f"runs/{id}/cancel", {}).status_code == 202
    end = until_event(events, "end")
    assert end["stop_reason"] == "cancelled"
    assert time.monotonic() - begun < SOON
    assert "You said: hello" in anna.say("hello")


def test_approved_in_another_tab(app, anna):
    """An approval is given in another tab; the first one sees the tool run."""
    id = anna.start("order 2 pizzas")
    events = anna.events(id)
    until_event(events, "interrupt_raised")
    other = Visitor(app.url, of=anna)
    question = other.wait_for_question(id)
    answers = {"answers": {question: {"allow": True}}}
    assert other.ask(f"runs/{id}/answers", answers).json()["answers"] == {
        question: "taken"
    }
    assert "2 x pizzas would be on the way" in until_event(events, "end")["text"]


def test_the_worker_is_killed(app, anna):
    """kill -9 in the middle of a story: a new worker tells it to the end."""
    id = anna.start("tell me a story")
    events = anna.events(id)
    until_event(events, "text_delta")
    app.worker.kill()
    app.restart_worker()
    until_event(events, "resumed")
    end = until_event(events, "end")
    assert (end["stop_reason"], end["text"]) == ("end_turn", STORY)


def test_both_are_restarted(app, anna):
    """The conversation is there, and so is its question."""
    anna.say("hello")
    id = anna.start("order 3 pizzas")
    question = anna.wait_for_question(id)
    app.kill()
    app.restart_worker()
    app.start_web()
    assert anna.ask("runs").json()["runs"][0]["id"] == id
    anna.ask(f"runs/{id}/answers", {"answers": {question: {"allow": True}}})
    end = until_event(anna.events(id), "end")
    assert "3 x pizzas would be on the way" in end["text"]
    said = anna.say("what did I say?")
    assert "hello" in said
    assert "order 3 pizzas" in said


@pytest.mark.parametrize("away", ["Redis", "PostgreSQL"])
@pytest.mark.parametrize("which", ["worker_command", "web_command"])
def test_a_server_is_away(tmp_path, request, away, which):
    """Both commands say so, and what to do; they neither hang nor show a traceback."""
    app = flask_app(tmp_path / "project", request)
    if away == "Redis":
        app.environment["REDIS_URL"] = "redis://127.0.0.1:1/0"
    else:
        app.environment["DATABASE_URL"] = f"postgresql:///x?host={tmp_path}"
    with app:
        process = app.do(getattr(app, which))
        assert process.wait() != 0
    assert f"{away}: " in process.text
    assert "Start it, or set " in process.text
    assert "Traceback" not in process.text
