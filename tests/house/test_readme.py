"""The README is true."""

import contextlib
import io
import re
import shlex
import subprocess

import pytest
from source import ROOT

from syncagent.models.local import INSTALL

README = (ROOT / "README.rst").read_text(encoding="utf-8")
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def blocks(language):
    """Return the code blocks of one language, without their indentation."""
    pattern = rf"\.\. code-block:: {language}\n\n((?:    .*\n|\n)+)"
    return [
        re.sub(r"^    ", "", block, flags=re.MULTILINE).strip()
        for block in re.findall(pattern, README)
    ]


def command(name):
    """Return the command printed under a marker, as .ci/run finds it."""
    after = README.split(f".. command: {name}\n")[1]
    return next(line.strip() for line in after.splitlines() if line.startswith("    "))


def test_code_runs():
    """Every Python block runs as it stands, and the first shows a cancel."""
    printed = []
    for block in blocks("python"):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block, "README.rst", "exec"), {})
        printed.append(output.getvalue())
        assert len(block.splitlines()) <= 12
    first = "cancelled by user: the user went away\n"
    assert printed == [first, "Wear a jacket.\n", "Sunny.\nRain.\n", "2\n"]


@pytest.mark.parametrize("name", ["chat", "demo", "test"])
def test_commands_are_those_that_ci_runs(name):
    """There is one line for each, it sets everything up, and .ci/run runs it."""
    line = command(name)
    assert line in blocks("bash")
    steps = line.split(" && ")
    assert len(steps) == (4 if name == "chat" else 3)
    assert steps[0] == "python3 -m venv .venv"
    assert steps[1].startswith(".venv/bin/pip install")
    assert f"in_clone {name}" in CI
    found = subprocess.run(
        ["bash", "-c", f"{command_of_ci()} command_of {name}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert found.stdout.strip() == line


def command_of_ci():
    """Return the function by which .ci/run reads the README."""
    return re.search(r"command_of\(\) \{.*?\n\}\n", CI, re.DOTALL)[0]


@pytest.mark.parametrize("name", ["chat", "demo"])
def test_commands_end_in_one_of_ours(name):
    """The last step of each is a command of the package."""
    assert shlex.split(command(name))[-2:] == [".venv/bin/syncagent", name]


def test_the_local_model_is_the_pinned_one():
    """The README installs the versions that the package names, and may fail to."""
    assert (
        f".venv/bin/{INSTALL.replace('install', 'install --quiet')} || true" in README
    )


def test_files_it_names_are_there():
    """Every path that the README mentions exists."""
    named = re.findall(r"``((?:docs|examples|tests)/[\w./]*|[A-Z]+\.rst)``", README)
    assert named
    for path in named:
        assert (ROOT / path).exists(), path
