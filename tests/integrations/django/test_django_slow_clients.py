"""A client of a Django site that reads nothing."""

import pytest
from sites import CSRF, SITES, Site
from support.web.servers import Deaf


@pytest.mark.slow
@pytest.mark.parametrize("name", SITES)
def test_one_that_reads_nothing(name, fake, tmp_path):
    """M2: its stream ends, and with it the run, under WSGI and ASGI."""
    with Site(name, tmp_path, SLOW="0.5") as site:
        with Deaf(site, fake, **CSRF) as client:
            state = site.wait(lambda state: state["ended"], "an end")
            assert state["ended"][-1][:2] == ["cancelled", "disconnect"]
            if "uvicorn" not in name:  # which holds no thread, but the connection
                assert client.is_reset()
        site.wait_until_free()
