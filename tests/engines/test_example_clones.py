"""The two commands of each example application, as printed, in a fresh clone."""

import pytest
from example_app import DJANGO, FLASK, ExampleApp, newest_python, servers
from visitor import Visitor, until_event

# Not "engines": it installs everything, which takes minutes.
pytestmark = [pytest.mark.stress, pytest.mark.timeout(1200)]


def talk_and_stop(url):
    """Play a visitor who talks, and stops a tool in the worker."""
    anna = Visitor(url)
    assert "You said: hello" in anna.say("hello")
    id = anna.start("work 60 seconds")
    events = anna.events(id)
    until_event(events, "tool_progress")
    assert anna.ask(f"runs/{id}/cancel", {}).status_code == 202
    assert until_event(events, "end")["stop_reason"] == "cancelled"


def test_flask_with_celery(tmp_path, request):
    """The commands are all that a machine with Redis and PostgreSQL needs."""
    with ExampleApp(tmp_path / "project", FLASK, **servers(request)) as app:
        app.clone()
        app.start(patience=900)
        talk_and_stop(app.url)


@pytest.mark.parametrize("database", ["SQLite", "PostgreSQL"])
def test_django_with_its_tasks(tmp_path, request, database):
    """The commands are all that a machine with Python 3.12 needs."""
    python = newest_python((3, 12))
    if python is None:
        pytest.skip("there is no Python 3.12")
    environment = {}
    if database == "PostgreSQL":
        cluster = request.getfixturevalue("cluster")
        if cluster is None:
            pytest.skip("PostgreSQL is not installed")
        cluster.execute("CREATE DATABASE of_django")
        environment = {"PGHOST": cluster.folder, "PGUSER": "postgres"}
        environment["PGDATABASE"] = "of_django"
    with ExampleApp(tmp_path / "project", DJANGO, **environment) as app:
        app.clone(python)
        app.start(patience=900)
        talk_and_stop(app.url)
