"""``flask syncagent``: commands that ask a server which is somewhere else."""

import threading

import pytest
from flask import Flask
from flask_site import Visitor, make_site
from werkzeug.serving import make_server

from syncagent import Agent
from syncagent.integrations.flask import SyncAgent
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
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
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


# -- where the token goes ----------------------------------------------------------


@pytest.fixture
def stranger():
    """A server of somebody else, which notes every request that reaches it."""
    seen = []

    def application(environ, start_response):
        seen.append((environ["PATH_INFO"], environ.get("HTTP_AUTHORIZATION")))
        start_response("200 OK", [("Content-Type", "application/json")])
        return [b'{"runs": [], "is_cancelled": true}']

    server = make_server("127.0.0.1", 0, application, threaded=True)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    yield server.server_port, seen
    server.shutdown()
    serving.join(20)
    server.server_close()


@pytest.mark.parametrize(
    "config",
    [
        {"SERVER_NAME": "localhost:{port}"},
        {"SERVER_NAME": "agents.example.com", "PREFERRED_URL_SCHEME": "http"},
        {"SERVER_NAME": "localhost:{port}", "PREFERRED_URL_SCHEME": "https"},
        {"SERVER_NAME": "localhost:{port}", "APPLICATION_ROOT": "/"},
        {"TRUSTED_HOSTS": ["agents.example.com", "127.0.0.1"]},
    ],
    ids=lambda config: "-".join(config),
)
def test_the_token_goes_to_the_given_address_only(site, gate, stranger, config):
    """H2: whatever the application calls itself, the commands ask the given server."""
    port, seen = stranger
    id = Visitor(site).start()
    gate.wait_reached()
    # The command is a process of its own, with the settings of production.
    command = make_site(ScriptedModel([]), operator_token=TOKEN)
    for name, value in config.items():
        command.config[name] = value.format(port=port) if name[0] == "S" else value
    code, output = invoke(command, "runs", "--url", site.url)
    assert (code, id in output) == (0, True), output
    assert invoke(command, "cancel", id, "--url", site.url) == (0, "Cancelled.\n")
    assert seen == []


def test_the_address_of_the_settings(site, gate, stranger):
    """H2: the same for SYNCAGENT_URL."""
    port, seen = stranger
    url = {"url": site.url}
    command = make_site(ScriptedModel([]), operator_token=TOKEN, **url)
    command.config["SERVER_NAME"] = f"localhost:{port}"
    assert invoke(command, "runs") == (0, "There are no live runs.\n")
    assert seen == []


def test_prefixes(stranger):
    """H2: a path of the address, or else APPLICATION_ROOT, is where the app is."""
    port, seen = stranger
    command = make_site(ScriptedModel([]), operator_token=TOKEN)
    url = f"http://127.0.0.1:{port}"
    command.config["SERVER_NAME"] = "agents.example.com"
    invoke(command, "runs", "--url", url)
    invoke(command, "runs", "--url", f"{url}/site/")
    command.config["APPLICATION_ROOT"] = "/root"
    invoke(command, "runs", "--url", url)
    invoke(command, "runs", "--url", f"{url}/site")
    paths = ["/agent/runs", "/site/agent/runs", "/root/agent/runs", "/site/agent/runs"]
    assert [path for path, _ in seen] == paths


def test_a_prefix_with_variables(stranger):
    """H2: defaults of the application fill the variables of a prefix."""
    port, seen = stranger
    command = Flask("command")
    command.config["SYNCAGENT_OPERATOR_TOKEN"] = TOKEN
    agents = SyncAgent(command, make_agent=lambda request, start: None)
    blueprint = agents.create_blueprint()
    blueprint.url_defaults(lambda endpoint, values: values.setdefault("lang", "en"))
    command.register_blueprint(blueprint, url_prefix="/<lang>/agent")
    invoke(command, "runs", "--url", f"http://127.0.0.1:{port}")
    assert seen == [("/en/agent/runs", f"Bearer {TOKEN}")]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(stranger, status):
    """H2: a server that redirects does not send the token elsewhere."""
    port, seen = stranger

    def application(environ, start_response):
        start_response(f"{status} x", [("Location", f"http://localhost:{port}/x")])
        return []

    server = make_server("127.0.0.1", 0, application)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    command = make_site(ScriptedModel([]), operator_token=TOKEN)
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        for arguments in (["runs"], ["cancel", "x"]):
            code, output = invoke(command, *arguments, "--url", url)
            assert (code, str(status) in output) == (1, True), output
    finally:
        server.shutdown()
        serving.join(20)
        server.server_close()
    assert seen == []


@pytest.mark.parametrize(
    "url",
    [
        "http://agents.example.com",
        "http://127.0.0.1@agents.example.com",
        "http://agents.example.com\\@127.0.0.1",
        "http://127.0.0.1.example.com",
        "http://127.0.0.1 .example.com",
        "ftp://127.0.0.1",
        "127.0.0.1:5000",
        "http://",
    ],
)
def test_addresses_that_are_refused(url):
    """H2: an address counts as the library that connects to it reads it."""
    command = make_site(ScriptedModel([]), operator_token=TOKEN)
    code, output = invoke(command, "runs", "--url", url)
    assert (code, "only over https" in output) == (1, True), output


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
    response = anna.post("runs", {"prompt": "Go."})
    assert (response.status_code, response.json["error"]["code"]) == (403, "not_set_up")
    with site.app_context():  # in a view of its own
        run = site.extensions["syncagent"].runs.start(Agent(model), "Go.", owner="anna")
    id = run.id
    for path in ("runs", f"runs/{id}", "runs/unknown", f"runs/{id}/events"):
        response = anna.get(path)
        assert response.status_code == 403
        assert "authorize" in response.json["error"]["message"]
    assert anna.post(f"runs/{id}/cancel").status_code == 403
    operator = Visitor(site, {"Authorization": f"Bearer {TOKEN}"})
    assert operator.get(f"runs/{id}").status_code == 200
    assert operator.get("runs/unknown").status_code == 404
    assert operator.get(f"runs/{id}/events").status_code == 404
