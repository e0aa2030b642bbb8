"""The example does what its first lines say, with Django's own server."""

import subprocess

import pytest
from example_site import MANAGE, Example, Visitor, manage
from support.threads import LONG
from support.web.servers import moments


@pytest.fixture(scope="module")
def example():
    """The example, served."""
    with Example() as running:
        yield running


def test_it_is_short_and_explained():
    """It is a page of code, and says how to install and to run it."""
    text = MANAGE.read_text(encoding="utf-8")
    assert text.count("\n") <= 60
    assert '\nInstall it: pip install ".[django]"' in text
    assert "\nRun it: python examples/django_app/manage.py runserver" in text
    assert "\nWith a real model: " in text
    assert "-c python:syncagent.integrations.gunicorn manage\n" in text
    assert "\napplication = get_wsgi_application()\n" in text


def test_stop(example):
    """Only the user who started a run can stop it."""
    anna, eve = Visitor(example.url), Visitor(example.url)
    status, run = anna.ask("runs", {"prompt": "work 20 seconds"})
    assert status == 202
    path = f"runs/{run['id']}"
    assert eve.ask(f"{path}/cancel", {})[0] == 404
    assert eve.ask("runs")[1]["runs"] == []
    assert anna.ask(f"{path}/cancel", {})[0] == 202
    views = (anna.ask(path)[1] for _ in moments())
    ended = next(view for view in views if not view["is_live"])
    assert ended["stop_reason"] == "cancelled"
    assert anna.ask(f"{path}/cancel", {})[0] == 409


@pytest.mark.slow
def test_commands(example):
    """Another process lists what is live, and ends it."""
    run = Visitor(example.url).ask("runs", {"prompt": "work 20 seconds"})[1]
    url = f"--url={example.url}"
    with manage("syncagent_runs", url, stdout=subprocess.PIPE, text=True) as listing:
        said = listing.communicate(timeout=LONG)[0]
    assert run["id"] in said
    assert "work 20 seconds" in said
    ending = manage("syncagent_cancel", "--all", url, stdout=subprocess.PIPE, text=True)
    with ending:
        assert "cancelled" in ending.communicate(timeout=LONG)[0]
