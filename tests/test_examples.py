"""Every example runs, without a key and without a network; many with a real model."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from support.threads import until

from syncagent.testing import Delay, FakeServer, Send, Stall, say

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGE = (ROOT / "docs" / "examples.rst").read_text(encoding="utf-8")
#: It serves until it is stopped.
SERVER = ROOT / "examples" / "web_app.py"
ENDING = [path for path in EXAMPLES if path != SERVER]
#: The examples that can be pointed at a real model.
REAL = [path for path in ENDING if "SYNCAGENT_MODEL" in path.read_text("utf-8")]
#: The others: a failure, a kill or hundreds of requests at exact points, for which the
#: page gives the reason; models by other names; and no model at all.
NOT_REAL = {
    *("resume_after_error", "survive_a_kill", "several_processes", "long_research"),
    *("ask_a_model", "cancel_everywhere", "cancel_a_stream", "cancel_requests"),
    *("interrupt_database", "tokens", "ctrl_c", "log_to_files"),
}


def test_there_are_examples():
    """The folder was found."""
    assert len(EXAMPLES) >= 3


def test_every_example_is_on_its_page():
    """The page lists each of them once, and nothing that is not there."""
    listed = re.findall(r"^   \* - ``(\w+\.py)``$", PAGE, re.MULTILINE)
    assert sorted(listed) == [path.name for path in EXAMPLES]


@pytest.mark.parametrize("name", ["flask_celery/app.py", "django_tasks/manage.py"])
def test_applications_are_started_by_two_commands(name):
    """The first lines of an application print them, and the page the same ones."""
    explained = (ROOT / "examples" / name).read_text(encoding="utf-8").split('"""')[1]
    commands = [each for each in explained.split("\n\n") if each.startswith("    ")]
    assert len(commands) == 2
    assert all(f"\n\n{command}\n\n" in PAGE for command in commands)
    assert f"``{name}``" in PAGE
    assert "\nWith a real model: " in explained


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short_and_explained(path):
    """It says what it shows, how to run it, and what to do with a real model."""
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 60
    explained = text.split('"""')[1]
    assert text.startswith('"""' + explained)
    assert f"\nRun it: python examples/{path.name}" in explained
    assert "\nWith a real model: " in explained or "\nThere is no model" in explained


@pytest.mark.parametrize("path", ENDING, ids=lambda path: path.stem)
@pytest.mark.slow
def test_example_runs(path):
    """It ends well, and says something."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout


def respond(request):
    """Respond as a model of today does: in its own words, without calling a tool."""
    text = request.body.decode()
    if "stars" in text:
        return say('{"mood": "bad", "stars": 2}')
    answer = "I cannot do more than say that it is a fine day, wherever you may be. "
    if "all about" in text.rpartition('"user"')[2]:
        return say(answer * 5, acts=[Send(20), Delay(1.0), Send()])
    if "story" in text.rpartition('"user"')[2]:
        return say(answer * 5, acts=[Send(20), Stall()])
    return say(answer)


def environment(server):
    """Return that of a user with a key and a model."""
    return {
        **os.environ,
        "SYNCAGENT_MODEL": "openai:gpt-6-luna",
        "OPENAI_BASE_URL": server.base_url,
        "OPENAI_API_KEY": "key",
    }


def test_most_can_have_a_real_model():
    """They say so in their first lines."""
    assert {path.stem for path in ENDING} - {path.stem for path in REAL} == NOT_REAL
    for path in (*REAL, SERVER):
        explained = path.read_text(encoding="utf-8").split('"""')[1]
        assert "\nWith a real model: set SYNCAGENT_MODEL=" in explained, path.name


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
@pytest.mark.slow
def test_example_runs_with_the_model_of_the_environment(path):
    """Its requests go there, and it ends well whatever the model says."""
    with FakeServer(respond) as server:
        ended = subprocess.run(
            [sys.executable, "-W", "error", str(path)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            input="hello\n",
            env=environment(server),
        )
        models = {each.payload["model"] for each in server.requests}
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert models == {"gpt-6-luna"}


class ServedExample:
    """The server of ``web_app.py`` in a process of its own, and one client."""

    def __init__(self, env=None):
        command = [sys.executable, "-W", "error", str(SERVER), "0"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        )
        address = re.search(r"http://([\d.:]+)/", self.process.stdout.readline())
        self.client = http.client.HTTPConnection(address[1], timeout=20)

    def start(self, prompt):
        """Start a run, and return its stream."""
        headers = {"X-User": "anna", "Content-Type": "application/json"}
        headers["Accept"] = "text/event-stream"
        body = json.dumps({"prompt": prompt})
        self.client.request("POST", "/runs", body, headers)
        return self.client.getresponse()

    def runs(self):
        """Return the runs of the same user, over a connection of its own."""
        client = http.client.HTTPConnection(self.client.host, self.client.port)
        with closing(client):
            client.request("GET", "/runs", headers={"X-User": "anna"})
            return json.loads(client.getresponse().read())["runs"]

    def close(self):
        """Press Ctrl+C, and keep what it has said."""
        self.client.close()
        self.process.send_signal(signal.SIGINT)
        self.said = self.process.communicate(timeout=20)[1]


@pytest.mark.slow
def test_the_web_application_ends_runs_whose_client_leaves():
    """While one request streams, another one is answered; then the tab is closed."""
    with closing(ServedExample()) as served:
        response = served.start("tell me a story")
        assert response.status == 200
        assert response.readline() == b"retry: 1000\n"
        (run,) = served.runs()
        assert run["is_live"]
        response.close()
        served.client.close()
        until(lambda: not served.runs()[0]["is_live"])
        (run,) = served.runs()
        assert run["stop_reason"] == "cancelled"
    assert "Traceback" not in served.said
    assert served.process.returncode == 0


@pytest.mark.slow
def test_the_web_application_takes_the_model_of_the_environment():
    """The stream has its words."""
    with (
        FakeServer(respond) as server,
        closing(ServedExample(environment(server))) as it,
    ):
        body = it.start("What day is it?").read()
    assert b"fine" in body
    assert {each.payload["model"] for each in server.requests} == {"gpt-6-luna"}


#: The sites: the folder, the module with the agent, and what it needs.
SITES = [
    ("flask_app", "app", "flask"),
    ("django_app", "manage", "django"),
    ("flask_celery", "app", "celery"),
    ("django_tasks", "chat.tasks", "django.tasks"),
]


@pytest.mark.parametrize(("folder", "module", "needed"), SITES)
@pytest.mark.slow
def test_sites_take_the_model_of_the_environment(folder, module, needed, tmp_path):
    """And so do the agents of their runs."""
    pytest.importorskip(needed)
    code = f"from {module} import make_agent; print(make_agent(None).model)"
    settings = {"PYTHONPATH": str(ROOT / "examples" / folder)}
    if folder == "django_tasks":
        pytest.importorskip("django_tasks_db")
        settings["DJANGO_SETTINGS_MODULE"] = "chat.settings"
        code = f"import django; django.setup(); {code}"
    with FakeServer([]) as server:
        ended = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env={**environment(server), **settings},
        )
    assert "openai:gpt-6-luna" in ended.stdout, ended.stderr
