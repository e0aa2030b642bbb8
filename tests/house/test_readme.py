"""The README is true."""

import contextlib
import io
import re
import runpy
import shlex
import subprocess

import pytest
from source import ROOT

from syncagent.models.local import INSTALL
from syncagent.testing import FakeServer, Send, Stall, say

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


def run_block(block, **names):
    """Run a Python block of the README; return its names and its output."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block, "README.rst", "exec"), names)
    return names, output.getvalue()


def test_the_first_code_is_short():
    """The real thing, in eight lines, beside empty ones."""
    first = blocks("python")[0]
    assert len([line for line in first.splitlines() if line.strip()]) == 8


@pytest.mark.parametrize("acts", [[], [Send(9), Stall()]], ids=["talks", "stalls"])
def test_the_first_code_says_the_truth(acts, monkeypatch):
    """It ends by itself, or by the timer, with what had arrived; and can go on."""
    first = blocks("python")[0]
    assert "Timer(5, " in first
    script = [say("Python 3.15 is out, and more.", acts=acts), "Nothing."]
    with FakeServer(script) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        names, _ = run_block(first.replace("Timer(5, ", "Timer(0.5, "))
        result = names["result"]
        if acts:
            assert result.stop_reason == "cancelled"
            assert result.cancellation.reason == "too slow"
            assert result.cancellation.phase == "stream"
            assert 0 < len(result.text) < len("Python 3.15 is out, and more.")
        else:
            assert result.stop_reason == "end_turn"
            assert result.text == "Python 3.15 is out, and more."
        assert names["agent"].run("And yesterday?").text == "Nothing."


def test_code_runs():
    """Every other Python block runs as it stands."""
    printed = []
    for block in blocks("python")[1:]:
        printed.append(run_block(block)[1])
        assert len(block.splitlines()) <= 12
    assert printed == ["Enjoy!\n"]


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
    assert f".venv/bin/{INSTALL} || true" in README


def test_links_lead_somewhere():
    """Every link and picture is a file of the project, by its path from the root."""
    linked = re.findall(r"`[^`<]+ <([^>]+)>`_|\.\. image:: (\S+)", README)
    paths = [link or image for link, image in linked]
    assert len(paths) > 20
    for path in paths:
        assert (ROOT / path).is_file(), path


def test_links_work_on_a_package_index(monkeypatch):
    """The description of the distribution has addresses in place of paths."""
    setuptools = pytest.importorskip("setuptools")
    given = {}
    monkeypatch.setattr(setuptools, "setup", lambda **settings: given.update(settings))
    runpy.run_path(str(ROOT / "setup.py"))
    described = given["long_description"]
    assert "blob/main/docs/stopping.rst>`_" in described
    assert "raw/main/docs/_static/terminal.png" in described
    links = re.findall(r"<([^>]+)>`_|image:: (\S+)", described)
    paths = [link or image for link, image in links]
    assert [path for path in paths if not path.startswith("https://")] == []


def test_it_renders():
    """docutils, which package indexes use, finds nothing wrong with it."""
    docutils = pytest.importorskip("docutils.core")
    settings = {"report_level": 2, "halt_level": 5, "warning_stream": io.StringIO()}
    docutils.publish_doctree(README, settings_overrides=settings)
    assert settings["warning_stream"].getvalue() == ""
