"""A server of forks in which commands run."""

import sys
from pathlib import Path

import pytest
from support import commands

# Commands are given the tools in chat/typed_tools.py, whichever tests are chosen.
sys.path.insert(0, str(Path(__file__).parent / "chat"))


@pytest.fixture(scope="session", autouse=True)
def _ready():
    commands.ready()
