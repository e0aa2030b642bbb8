"""Every example runs, without a key and without a network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
