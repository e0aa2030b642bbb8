"""Every wait has its timeout, and every timeout its error."""

import threading

import pytest
from harness import advance_until, new_id
from support.threads import LONG, together

from syncagent import Cancelled, CancelToken, exceptions
from syncagent.testing import FakeClock
from syncagent.transport import Timeouts, Transport

#: The timeouts in these tests: one of fake time, all others never.
NEVER = dict.fromkeys(Timeouts.__struct_fields__)

STREAMS = [
    ("connect", "full", "", "connect", exceptions.ConnectTimeout),
    ("connect", "silent", "", "handshake", exceptions.ConnectTimeout),
    ("send", "http", "unread", "send", exceptions.SendTimeout),
    ("headers", "http", "silent", "headers", exceptions.HeadersTimeout),
    ("headers", "https", "silent", "headers", exceptions.HeadersTimeout),
    (
        "first_event",
        "http",
        "chunked/stall",
        "first event",
        exceptions.FirstEventTimeout,
    ),
    (
        "first_event",
        "http",
        "close/comments",
        "first event",
        exceptions.FirstEventTimeout,
    ),
    ("stall", "http", "chunked/e/stall", "stream", exceptions.StallTimeout),
    ("stall", "http", "chunked/e/comments", "stream", exceptions.StallTimeout),
    ("stall", "https", "chunked/e/h/stall", "stream", exceptions.StallTimeout),
    ("total", "http", "chunked/flow", "stream", exceptions.TotalTimeout),
    ("total", "http", "silent", "headers", exceptions.TotalTimeout),
]


def address(server, port, path):
    """Return the address of a script on a port that may not speak TLS."""
    scheme = "https" if port in ("https", "silent") else "http"
    return f"{scheme}://127.0.0.1:{server.ports[port]}/{path}?id={new_id()}"


def make(certificates, **settings):
    timeouts = settings.pop("timeouts")
    return Transport(
        verify=certificates.authority,
        timeout=Timeouts(**{**NEVER, **timeouts}),
        **{"retries": 0, **settings},
    )


@pytest.mark.parametrize(("name", "port", "path", "phase", "expected"), STREAMS)
def test_each_phase_has_its_own(
    server, certificates, name, port, path, phase, expected
):
    """What takes longer than it may ends, with an error that says what and where."""
    with FakeClock() as clock:
        there, ended = threading.Event(), threading.Event()
        transport = make(certificates, timeouts={name: 30})

        def note(now):
            if now == phase:
                there.set()

        def call():
            try:
                body = bytes(10_000_000) if name == "send" else b""
                url = address(server, port, path)
                with pytest.raises(expected, match="30 s") as error:
                    list(transport.stream(url, data=body, on_phase=note))
                assert error.value.phase == phase
                assert isinstance(error.value, TimeoutError)
            finally:
                ended.set()

        def wait_for_time():
            assert there.wait(LONG)
            advance_until(clock, ended.is_set)

        together(call, wait_for_time)


def test_a_body_without_events_may_stall_too(server, certificates):
    """A reply has the same limits: for its head, and for every further piece."""
    with FakeClock() as clock:
        ended = threading.Event()
        transport = make(certificates, timeouts={"stall": 30})

        def call():
            with pytest.raises(exceptions.StallTimeout):
                transport.post(server.url("length/e/stall"), json={})
            ended.set()

        together(call, lambda: advance_until(clock, ended.is_set))


def test_whoever_is_in_time_is_not_late(server, certificates):
    """Each event gives the next one the full time again."""
    with FakeClock() as clock:
        transport = make(certificates, timeouts={"first_event": 30, "stall": 30})
        url = server.url("chunked/e/wait/e/wait/e/wait/e/end")
        stream = transport.stream(url, json={})
        for _ in range(3):
            next(stream)
            clock.advance(29)
            server.go_on()
        assert len(list(stream)) == 1


def test_the_callers_own_time_does_not_count(server, certificates):
    """Who takes an hour over an event has not been kept waiting by the server."""
    with FakeClock() as clock:
        transport = make(certificates, timeouts={"first_event": 30, "stall": 30})
        stream = transport.stream(server.url("chunked/e/wait/e/end"), json={})
        next(stream)
        clock.advance(3600)
        assert not CancelToken(timeout=0.001).wait(0)  # the timer may have its say
        server.go_on()
        assert len(list(stream)) == 1


def test_the_tokens_deadline_caps_them_all(server, certificates):
    """It ends the call as a cancel, not as a timeout."""
    with FakeClock() as clock:
        ended = threading.Event()
        transport = make(certificates, timeouts={"headers": 60, "total": 60})

        def call():
            token = CancelToken(timeout=30)
            with pytest.raises(Cancelled) as stop:
                transport.post(server.url("silent", id=new_id()), token=token, json={})
            assert stop.value.origin == "deadline"
            assert clock.now() < token.deadline + 5
            ended.set()

        together(call, lambda: advance_until(clock, ended.is_set))


def test_total_counts_all_attempts(server, certificates):
    """Retries and their waits are within it; one that would not fit is not begun."""
    with FakeClock() as clock:
        ended, attempts = threading.Event(), []
        transport = make(
            certificates, timeouts={"headers": 30, "total": 100}, retries=99
        )

        def call():
            with pytest.raises(exceptions.RequestTimeout):
                transport.post(
                    server.url("silent", id=new_id()),
                    json={},
                    on_phase=lambda phase: attempts.append(phase == "headers"),
                )
            ended.set()

        begin = clock.now()
        together(call, lambda: advance_until(clock, ended.is_set))
        assert 2 <= sum(attempts) <= 4
        assert clock.now() - begin < 110


@pytest.mark.parametrize(
    ("timeout", "connect", "stall"),
    [(5, 5, 5), ((3, 7.5), 3, 7.5), ((None, 7), None, 7), (None, None, None)],
)
def test_as_requests_has_it(timeout, connect, stall):
    """A number, a pair, or nothing mean what users of requests expect."""
    timeouts = Timeouts.of(timeout)
    assert timeouts.connect == connect
    assert {timeouts.headers, timeouts.first_event, timeouts.stall} == {stall}


@pytest.mark.parametrize(
    "timeout", [0, -1, "5", True, float("nan"), (1, 2, 3), (1, "x")]
)
def test_what_is_no_timeout(timeout):
    """It is said at once, and with the name of the wait."""
    with pytest.raises(exceptions.ConfigurationError, match=r"timeout"):
        Transport(timeout=timeout)
