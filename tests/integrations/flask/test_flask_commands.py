"""``flask syncagent``: commands that ask a server which is somewhere else."""

import threading

import pytest
from flask_site import Visitor, make_site
from werkzeug.serving import make_server

from syncagent.testing import Gate, ScriptedModel

TOKEN = "a-token-of-the-operator"


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def site(gate):
    """An application that is served, and whose model hangs."""
    site = make_site(ScriptedModel([gate]), operator_token=TOKEN)
    server = make_server("127.0.0.1", 0, site, threaded=True)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    site.url = f"http://127.0.0.1:{server.server_port}"
    yield site
    server.shutdown()
    serving.join(20)
    server.server_close()


def invoke(site, *arguments):
    """Run a command as a process of its own would, with the same settings."""
    ended = site.test_cli_runner().invoke(args=["syncagent", *arguments])
    return ended.exit_code, ended.output


def test_runs_and_cancel(site, gate):
    """An operator sees the runs of all owners, and ends one of them."""
    anna = Visitor(site)
    id = anna.start("A long \x1b[31m story")
    gate.wait_reached()
    code, output = invoke(site, "runs", "--url", site.url)
    assert code == 0
    assert id in output
    assert "\x1b" not in output
    assert invoke(site, "cancel", id, "--url", site.url) == (0, "Cancelled.\n")
    view = anna.wait(id)
    assert view["stop_reason"] == "cancelled"
    assert view["cancellation"]["origin"] == "remote"  # and not its owner
    again = invoke(site, "cancel", id, "--url", site.url)
    assert again == (0, "The run had already ended.\n")
    assert "no live runs" in invoke(site, "runs", "--url", site.url)[1]
    shown = invoke(site, "runs", "--all", "--url", site.url)[1]
    assert f"{id}  cancelled" in shown


def test_what_goes_wrong(site):
    """Unknown runs, no server, and an unencrypted address each have their message."""
    assert "no such run" in invoke(site, "cancel", "x", "--url", site.url)[1]
    assert "the ID is empty" in invoke(site, "cancel", " ", "--url", site.url)[1]
    assert "reached" in invoke(site, "runs", "--url", "http://127.0.0.1:9")[1]
    code, output = invoke(site, "runs", "--url", "http://example.org")
    assert code == 1
    assert "https" in output


def test_no_token_no_commands():
    """Without a token in the settings the commands refuse to work."""
    site = make_site(ScriptedModel(["Hello."]))
    code, output = invoke(site, "runs")
    assert code == 1
    assert "SYNCAGENT_OPERATOR_TOKEN" in output


@pytest.mark.parametrize("given", [TOKEN[:-1], TOKEN + "x", "", "é"])
def test_another_token_is_none(site, gate, given):
    """Without the token there is no access."""
    anna = Visitor(site)
    id = anna.start()
    stranger = Visitor(site, {"Authorization": f"Bearer {given}"})
    assert stranger.get(f"runs/{id}").status_code == 404
    operator = Visitor(site, {"Authorization": f"Bearer {TOKEN}"})
    assert operator.get(f"runs/{id}").status_code == 200
    # Only the owner answers questions.
    answers = {"answers": {"x": {"allow": True}}}
    assert operator.post(f"runs/{id}/answers", answers).status_code == 404
    assert operator.get(f"runs/{id}/events").status_code == 404
    assert operator.post(f"runs/{id}/cancel").status_code == 202
    anna.wait(id)


def test_a_token_says_nothing_of_others():
    """Without authorize= others are refused, even if there is a token."""
    model = ScriptedModel(["Hello."])
    site = make_site(model, operator_token=TOKEN, functions={"authorize": None})
    anna = Visitor(site)
    id = anna.start()
    for path in ("runs", f"runs/{id}", "runs/unknown", f"runs/{id}/events"):
        response = anna.get(path)
        assert response.status_code == 403
        assert "authorize" in response.json["error"]["message"]
    assert anna.post(f"runs/{id}/cancel").status_code == 403
    operator = Visitor(site, {"Authorization": f"Bearer {TOKEN}"})
    assert operator.get(f"runs/{id}").status_code == 200
    assert operator.get("runs/unknown").status_code == 404
    assert operator.get(f"runs/{id}/events").status_code == 404
