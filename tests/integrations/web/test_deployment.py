"""Servers under which Stop cannot work are named in the log, once."""

import threading

import pytest
from support.threads import LONG
from support.web.servers import Server

from syncagent.integrations.web import deployment
from syncagent.integrations.web.deployment import (
    count_configured_workers,
    warn_about_server,
)

SEVERAL = "each worker process has only the runs that it has started"
ONE_THREAD = "the server handles one request at a time"


def environ_of(**changes):
    """Return the environ of a request to a server that is fine."""
    return {
        "wsgi.version": (1, 0),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "SERVER_SOFTWARE": "test/1",
        **{name.replace("_", ".", 1): value for name, value in changes.items()},
    }


@pytest.fixture(autouse=True)
def nothing_said():
    """Each test is the first run of its process."""
    before = dict(deployment._given)
    deployment._given.clear()
    yield
    deployment._given.clear()
    deployment._given.update(before)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    monkeypatch.delenv("WEB_CONCURRENCY", raising=False)
    monkeypatch.delenv("GUNICORN_CMD_ARGS", raising=False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"wsgi_multiprocess": True}, [SEVERAL]),
        ({"wsgi_multithread": False}, [ONE_THREAD]),
        ({"wsgi_multithread": 0, "wsgi_multiprocess": 1}, [SEVERAL, ONE_THREAD]),
    ],
)
def test_what_the_server_says(changes, words, caplog):
    """B1: the first run warns, the next ones do not."""
    for _ in range(3):
        warn_about_server(environ_of(**changes))
    assert [record.levelname for record in caplog.records] == ["WARNING"] * len(words)
    for word in words:
        assert word in caplog.text
    assert caplog.text.count("docs/web.rst") == len(words)


def test_test_clients_are_no_servers(caplog):
    """The test clients of Django and Flask say anything, and give no warning."""
    environ = environ_of(wsgi_multiprocess=True, wsgi_multithread=False)
    del environ["SERVER_SOFTWARE"]
    warn_about_server(environ)
    warn_about_server(None)
    assert caplog.text == ""
    warn_about_server({**environ, "uwsgi.version": b"2"})
    assert SEVERAL in caplog.text


@pytest.mark.parametrize(
    ("variables", "number"),
    [
        ({}, 1),
        ({"WEB_CONCURRENCY": "4"}, 4),
        ({"WEB_CONCURRENCY": "many"}, 1),
        ({"GUNICORN_CMD_ARGS": "--bind=:80 -w 3"}, 3),
        ({"GUNICORN_CMD_ARGS": "--workers=5 --threads 9"}, 5),
        ({"GUNICORN_CMD_ARGS": "-w2"}, 2),
        ({"WEB_CONCURRENCY": "4", "GUNICORN_CMD_ARGS": "--workers 1"}, 1),
        ({"GUNICORN_CMD_ARGS": "--worker-class gthread --threads 8"}, 1),
    ],
)
def test_what_the_environment_says(variables, number, monkeypatch, caplog):
    """B1: under ASGI only the environment tells how many workers there are."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert count_configured_workers() == number
    warn_about_server({"REQUEST_METHOD": "POST"})
    assert (SEVERAL in caplog.text) == (number > 1)


# -- real servers ------------------------------------------------------------------


@pytest.mark.slow
def test_closing_the_stream_frees_a_sync_worker(fake):
    """B2: a Stop that waits for the only worker is served once the stream is closed."""
    with Server("gunicorn-sync", GRACE=str(LONG)) as server:
        answers = []
        with server.stream("stall", fake) as client:
            id = client.until("run")[2]["id"]
            client.until("text_delta")
            stop = threading.Thread(
                target=lambda: answers.append(server.ask("POST", f"/runs/{id}/cancel"))
            )
            stop.start()
            stop.join(0.3)
            assert answers == []  # it cannot be served
        stop.join(LONG)
        assert answers[0][0] == 202  # at once, and not after the grace
        fake.wait_for_hang_up()


@pytest.mark.slow
def test_closing_the_stream_ends_a_run_of_any_worker(fake):
    """B1: with several workers, closing its own stream ends a run for certain."""
    with Server("gunicorn-gthread", "-w", "2", GRACE="0.5") as server:
        for number in range(1, 5):
            with server.stream("stall", fake) as client:
                client.until("text_delta")
            fake.wait_for_hang_up(number)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("gunicorn-gthread", ["-w", "2"], [SEVERAL]),
        ("gunicorn-sync", [], [ONE_THREAD]),
        ("gunicorn-gthread", [], []),
        ("werkzeug", [], []),
        ("waitress", [], []),
    ],
)
def test_real_servers(name, more, words, fake):
    """B1: real servers are told apart, with one line per process."""
    with Server(name, *more) as server:
        for _ in range(3):
            server.start("hello", fake)
        log = server.log()
    for word in (SEVERAL, ONE_THREAD):
        assert (1 <= log.count(word) <= 2) == (word in words), log
