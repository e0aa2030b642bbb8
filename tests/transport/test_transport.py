"""Requests and their answers, when nothing goes wrong."""

import pytest


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("framing", ["chunked", "length", "gzip-chunked"])
def test_events_come_and_end(server, transport, scheme, framing):
    """The events of a framed answer, then its end."""
    url = server.url(f"{framing}/e/c/e/end", scheme)
    with transport.stream(url, json={}) as stream:
        assert [event.data for event in stream] == ['{"number": 0}', '{"number": 2}']
        assert stream.status == 200
