"""A server of forks in which commands run."""

import pytest
from support import commands


@pytest.fixture(scope="session", autouse=True)
def _ready():
    commands.ready()
