"""What is tried again, when, and what is not."""

import email.utils
import threading

import pytest
from harness import advance_until
from hypothesis import given
from hypothesis import strategies as st
from support.threads import LONG, together

from syncagent import CancelToken, exceptions
from syncagent.exceptions import ConfigurationError, ProviderUnavailable, RateLimited
from syncagent.testing import FakeClock
from syncagent.transport import Retries, Transport
from syncagent.transport.retries import parse_retry_after


class Counted:
    """A transport under a fake clock, whose attempts are counted."""

    def __init__(self, **settings):
        self._transport = Transport(**settings)
        self.attempts = 0

    def note(self, phase):
        self.attempts += phase == "send"

    def stream(self, url):
        """Stream to the end, however long it may wait in between."""
        events, failures = [], []
        with FakeClock() as clock:
            ended = threading.Event()

            def call():
                try:
                    options = {"json": {}, "on_phase": self.note}
                    events.extend(self._transport.stream(url, **options))
                except exceptions.SyncAgentError as error:
                    failures.append(error)
                finally:
                    ended.set()

            begin = clock.now()
            together(call, lambda: advance_until(clock, ended.is_set, step=0.01))
            self.waited = clock.now() - begin
        if failures:
            raise failures[0]
        return events


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529, 599])
def test_statuses_that_may_pass(server, status):
    """Each is tried again, as often as allowed, and then told."""
    counted = Counted(retries=2)
    with pytest.raises((ProviderUnavailable, RateLimited)) as error:
        counted.stream(server.url(f"status/{status}/length/end"))
    assert counted.attempts == 3
    assert (error.value.status, error.value.retryable) == (status, True)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 413, 418, 422, 451])
def test_statuses_that_will_not(server, status):
    """What was wrong once is wrong for ever."""
    counted = Counted(retries=2)
    with pytest.raises(exceptions.ProviderError) as error:
        counted.stream(server.url(f"status/{status}/length/end"))
    assert counted.attempts == 1
    assert (error.value.status, error.value.retryable) == (status, False)


def test_a_failure_that_passes(server):
    """After it comes the answer, and nobody notices."""
    url = server.url("turns/2/status/503/length/end/then/chunked/e/end", id="turns-a")
    counted = Counted(retries=2)
    assert [event.data for event in counted.stream(url)] == ['{"number": 0}']
    assert counted.attempts == 3


@pytest.mark.parametrize("path", ["cut", "chunked/cut", "close/cut", "length/h/cut"])
def test_a_connection_that_breaks_before_the_first_event(server, path):
    """Nothing was delivered, so nothing can be delivered twice."""
    url = server.url(f"turns/1/{path}/then/chunked/e/end", id=f"turns-{path}")
    counted = Counted(retries=1)
    assert len(counted.stream(url)) == 1
    assert counted.attempts == 2


def test_a_refused_connection(server):
    """There was nobody; there may be somebody later."""
    phases = []
    transport = Transport(retries=Retries(limit=2, first_delay=0))
    with pytest.raises(exceptions.ConnectionFailed, match="could not connect") as error:
        transport.post("http://127.0.0.1:1/", json={}, on_phase=phases.append)
    assert phases.count("connect") == 3
    assert error.value.retryable
    assert isinstance(error.value.__cause__, ConnectionRefusedError)


def test_never_after_the_first_event(server):
    """What the caller has seen is not sent again, nor anything in its place."""
    counted = Counted(retries=5)
    with pytest.raises(exceptions.StreamBroken):
        counted.stream(server.url("chunked/e/cut"))
    assert counted.attempts == 1


def test_never_after_a_cancel(server):
    """A cancel in the wait is the end of it; phases show no further attempt."""
    token, phases, waiting = CancelToken(), [], threading.Event()

    def note(phase):
        phases.append(phase)
        if phase == "retry":
            waiting.set()

    def call():
        url = server.url("status/503/length/end", **{"Retry-After": "30"})
        with pytest.raises(exceptions.Cancelled):
            Transport().post(url, token=token, json={}, on_phase=note)

    together(call, lambda: (waiting.wait(LONG), token.cancel()))
    assert phases[-1] == "retry"
    assert phases.count("send") == 1


# -- how long to wait ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3),
        ({"Retry-After": "1.5"}, 1.5),
        ({"retry-after-ms": "2500"}, 2.5),
        ({"retry-after-ms": "2500", "Retry-After": "9"}, 2.5),
    ],
)
def test_a_server_that_says_how_long(server, headers, seconds):
    """It is not asked earlier, and not much later either."""
    path = "turns/1/status/429/length/end/then/chunked/e/end"
    url = server.url(path, id=f"turns-{headers}", **headers)
    counted = Counted(retries=1)
    assert len(counted.stream(url)) == 1
    assert seconds <= counted.waited < seconds + 1


def test_a_server_that_says_too_long(server):
    """It is not asked again; the error tells how long it wanted."""
    counted = Counted(retries=2)
    url = server.url("status/429/length/end", **{"Retry-After": "300"})
    with pytest.raises(RateLimited, match="wait 300 s") as error:
        counted.stream(url)
    assert counted.attempts == 1
    assert error.value.retry_after == 300


@pytest.mark.parametrize(
    ("status", "said", "attempts"), [(503, "false", 1), (400, "true", 3), (503, "?", 3)]
)
def test_a_server_that_knows_better(server, status, said, attempts):
    """x-should-retry counts more than the status."""
    counted = Counted(retries=Retries(limit=2, first_delay=0))
    url = server.url(f"status/{status}/length/end", **{"x-should-retry": said})
    with pytest.raises(exceptions.ProviderError):
        counted.stream(url)
    assert counted.attempts == attempts


def test_a_wait_beyond_the_deadline_is_not_begun(server):
    """The failure is told at once, not a deadline later."""
    url = server.url("status/429/length/end", **{"Retry-After": "100"})
    with pytest.raises(RateLimited):
        Transport().post(url, token=CancelToken(timeout=50), json={})


def failing(**data):
    return ProviderUnavailable("no", retryable=True, **data)


def test_waits_grow_and_are_random():
    """Full jitter: anything from nothing to a ceiling that doubles, up to a limit."""
    retries = Retries(limit=9, first_delay=0.5, max_delay=8)
    longest = [retries.delay(n, failing(), lambda: 1.0) for n in range(1, 10)]
    assert longest == [0.5, 1, 2, 4, 8, 8, 8, 8, 8]
    assert retries.delay(3, failing(), lambda: 0.0) == 0
    assert retries.delay(10, failing()) is None
    assert Retries(limit=10**9).delay(10**6, failing(), lambda: 1.0) == 8
    assert retries.delay(1, failing(retry_after=7), lambda: 0.5) == 7.25


@pytest.mark.parametrize("number", [-1, float("inf"), float("nan"), "3"])
@pytest.mark.parametrize("name", ["limit", "first_delay", "max_delay"])
def test_numbers_that_cannot_be(name, number):
    """It is said which."""
    with pytest.raises(ConfigurationError, match=name):
        Retries(**{name: number})


DATE = "Mon, 16 Nov 2026 10:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after-ms": "x", "retry-after": "4"}, 4),
        ({"retry-after": "Mon, 16 Nov 2026 10:00:30 GMT", "date": DATE}, 30),
        ({"retry-after": "Mon, 16 Nov 2026 09:59:00 GMT", "date": DATE}, 0),
        ({"retry-after": "Mon, 16 Nov 2026 10:00:30 GMT"}, 130),
        ({"retry-after": "Mon, 16 Nov 2026 10:00:30 GMT", "date": "?"}, 130),
        ({"retry-after": "Mon, 16 Nov 99999 10:00:30 GMT"}, None),
    ],
)
def test_what_servers_say(headers, seconds):
    """Seconds, milliseconds, dates by the server's clock or ours; nonsense is none."""
    here = email.utils.parsedate_to_datetime(DATE).timestamp() - 100
    assert parse_retry_after(headers, now=lambda: here) == seconds


@given(
    st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "date"]), st.text()
    )
)
def test_whatever_servers_say(headers):
    """The answer is a number of seconds or nothing, whatever came."""
    seconds = parse_retry_after(headers)
    assert seconds is None or 0 <= seconds < float("inf")
