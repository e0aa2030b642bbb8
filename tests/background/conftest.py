"""What all tests of the background leave behind: nothing."""

import pytest

from syncagent.transport import close_idle


@pytest.fixture(autouse=True)
def nothing_idle():
    """No connection outlives its test."""
    yield
    close_idle()
