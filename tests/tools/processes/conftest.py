"""What tests of processes have."""

import pytest
from worker_jobs import Mail

from syncagent.tools.processes.pool import close_idle


@pytest.fixture(autouse=True)
def no_workers():
    """Begin and end without a worker that waits."""
    close_idle()
    yield
    close_idle()


@pytest.fixture
def mail(tmp_path):
    mail = Mail(tmp_path)
    yield mail
    mail.close()
