"""Every example runs, without a key and without a network; many with a real model."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from syncagent.testing import FakeServer, Send, Stall, say

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGE = (ROOT / "docs" / "examples.rst").read_text(encoding="utf-8")


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


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
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


#: The examples that can be pointed at a real model.
REAL = [path for path in EXAMPLES if "SYNCAGENT_MODEL" in path.read_text("utf-8")]


def respond(request):
    """Respond as a model of today does: in its own words, without calling a tool."""
    text = request.body.decode()
    if "stars" in text:
        return say('{"mood": "bad", "stars": 2}')
    answer = "I cannot do more than say that it is a fine day, wherever you may be. "
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
    assert len(REAL) >= 14
    for path in REAL:
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


@pytest.mark.parametrize("name", ["flask_app/app.py", "django_app/manage.py"])
@pytest.mark.slow
def test_sites_take_the_model_of_the_environment(name, tmp_path):
    """And so do the agents of their runs."""
    path = ROOT / "examples" / name
    code = f"import {path.stem}; print({path.stem}.make_agent(None).model)"
    with FakeServer([]) as server:
        ended = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env={**environment(server), "PYTHONPATH": str(path.parent)},
        )
    assert "openai:gpt-6-luna" in ended.stdout, ended.stderr
