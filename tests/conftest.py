"""What every test has: nothing left behind, and a clean environment."""

import pytest

from syncagent.testing import no_leaks


@pytest.fixture(autouse=True)
def nothing_left():
    """Fail a test that leaves a thread of the SDK or a descriptor behind."""
    with no_leaks():
        yield
