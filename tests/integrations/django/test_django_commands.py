"""``manage.py syncagent_runs`` and ``syncagent_cancel``: another process."""

import json
from io import StringIO

import pytest
import site_of_tests
from django.core.management import CommandError, call_command
from django.test import override_settings
from sites import Site


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The site behind Django's own server."""
    with Site("django-runserver", tmp_path_factory.mktemp("site")) as running:
        yield running


def command(served, name, *arguments):
    """Have a command done for a server, and return what it prints."""
    out = StringIO()
    url = f"http://127.0.0.1:{served.port}/"
    call_command(name, *arguments, url=url, stdout=out)
    return out.getvalue()


def test_list_and_cancel(served, fake):
    """A command lists the runs of all owners, and cancels one of them."""
    assert "no live runs" in command(served, "syncagent_runs")
    id = served.start("stall", fake)["id"]
    listed = command(served, "syncagent_runs")
    assert listed.startswith(id)
    assert listed.rstrip().endswith("stall")
    assert json.loads(command(served, "syncagent_runs", "--json"))["id"] == id
    assert "cancelled" in command(served, "syncagent_cancel", id)
    served.wait_until_free()
    assert "already ended" in command(served, "syncagent_cancel", id)
    assert "cancelled" in command(served, "syncagent_runs", "--all")
    _, body = served.ask("GET", f"/runs/{id}")
    cancellation = json.loads(body)["cancellation"]
    assert cancellation["reason"] == "cancelled by an operator"
    assert cancellation["origin"] == "remote"  # and not its owner


def test_cancel_all(served, fake):
    """All live runs can be cancelled at once."""
    ids = {served.start("stall", fake)["id"] for _ in range(3)}
    lines = command(served, "syncagent_cancel", "--all").splitlines()
    assert {line.split()[0] for line in lines} == ids
    served.wait_until_free()


@pytest.mark.parametrize("arguments", [[], ["some-id", "--all"]])
def test_which(served, arguments):
    """A command takes ids or --all, not both."""
    with pytest.raises(CommandError, match="one or more ids"):
        command(served, "syncagent_cancel", *arguments)


def test_an_unknown_run(served):
    """An unknown run and a wrong token give different errors."""
    with pytest.raises(CommandError, match="no such run"):
        command(served, "syncagent_cancel", "some-id")


def test_a_wrong_token(served, fake):
    """With a wrong token a command sees nothing and cancels nothing."""
    other = {**site_of_tests.SYNCAGENT, "OPERATOR_TOKEN": "x" * 32}
    with override_settings(SYNCAGENT=other):
        for name, arguments in (
            ("syncagent_runs", []),
            ("syncagent_cancel", ["some-id"]),
        ):
            with pytest.raises(CommandError, match="does not accept the token"):
                command(served, name, *arguments)


@pytest.mark.parametrize("token", ["", "Bearer ", "Bearer short", "Basic eDp5"])
def test_operators_only(served, fake, token):
    """Issue 8: without the token the operator's endpoints give 404."""
    headers = {"Authorization": token} if token else {}
    id = served.start("stall", fake)["id"]
    assert served.ask("GET", "/operator/runs", **headers)[0] == 404
    status, _ = served.ask("POST", f"/operator/runs/{id}/cancel", **headers)
    assert status == 404
    assert len(served.state()["ours"]) == 1
    served.ask("POST", f"/runs/{id}/cancel")
    served.wait_until_free()


@pytest.mark.parametrize(
    ("changes", "url", "words"),
    [
        ({"OPERATOR_TOKEN": None}, "http://127.0.0.1:1/", "OPERATOR_TOKEN"),
        ({}, None, "--url"),
        ({}, "http://example.com/", "only over https"),
        ({}, "http://127.0.0.1:1/", "cannot be reached"),
    ],
)
def test_what_is_missing_for_it(changes, url, words):
    """An error names what a command needs; the token is never sent in clear."""
    with override_settings(SYNCAGENT={**site_of_tests.SYNCAGENT, **changes}):
        with pytest.raises(CommandError, match=words):
            call_command("syncagent_runs", url=url)
