"""A server of forks in which commands run."""

import commands
import pytest


@pytest.fixture(scope="session", autouse=True)
def _ready():
    commands.ready()
