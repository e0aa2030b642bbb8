"""SIGTERM in the middle of a stream: the run ends, and its last event comes."""

import pytest
from sites import Site
from support.threads import LONG


@pytest.mark.parametrize("name", ["django-gunicorn", "django-uvicorn"])
@pytest.mark.slow
def test_sigterm(name, tmp_path, fake):
    """Issue 8: SIGTERM cancels with origin shutdown, and the server leaves at once."""
    with Site(name, tmp_path) as site:
        with site.stream("stall", fake) as client:
            client.until("text_delta")
            site.process.terminate()
            _, _, view = client.until("end")
        assert view["stop_reason"] == "cancelled"
        assert view["cancellation"]["origin"] == "shutdown"
        fake.wait_for_hang_up()
        # uvicorn lets the signal have its way at the very end.
        assert site.process.wait(LONG) in (0, -15)
