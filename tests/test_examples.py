"""Every example runs, without a key and without a network."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_there_are_examples():
    """The folder was found."""
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path):
    """It ends well, says something, and is short and explained."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 60
    assert text.startswith('"""')
