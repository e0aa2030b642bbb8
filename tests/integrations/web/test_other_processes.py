"""Servers with several processes, of which one has the run."""

import json
from contextlib import closing
from http.client import HTTPConnection

import pytest
from support.threads import LONG
from support.web.runs import make_runs
from support.web.servers import Server, connect

from syncagent.integrations.web.views import Views, WebRequest


def ask(port, sock):
    """Ask for a run that is not there; return the error's code and message."""
    connection = HTTPConnection("127.0.0.1", port, timeout=LONG)
    connection.sock = sock
    connection.request("GET", f"/runs/{'x' * 32}", headers={"X-User": "anna"})
    response = connection.getresponse()
    error = json.loads(response.read())["error"]
    assert response.status == 404
    return error["code"], error["message"]


@pytest.mark.slow
def test_a_process_without_the_run_closes_the_connection():
    """B1: the next request of a browser may reach another process."""
    with Server("gunicorn-gthread", "--workers", "2") as server:
        with closing(connect(server.port)) as sock:
            code, message = ask(server.port, sock)
            assert code == "not_here"
            assert "no such run in this server process" in message
            assert "docs/web.rst" in message
            assert sock.recv(1) == b""


def test_a_single_process_keeps_the_connection(gthread):
    """A run that is not in the only process is nowhere: the connection stays."""
    with closing(connect(gthread.port)) as sock:
        for _ in range(3):
            said = ask(gthread.port, sock)
            assert said == ("not_found", "There is no such run.")


@pytest.mark.parametrize(
    ("environ", "code"),
    [
        (None, "not_found"),
        ({"wsgi.multiprocess": False}, "not_found"),
        ({"wsgi.multiprocess": True}, "not_here"),
        ({}, "not_here"),  # ASGI does not tell
    ],
)
def test_the_server_tells_whether_it_has_several(environ, code):
    """B1: the error is another one only where the run may be in another process."""
    with make_runs() as runs:
        views = Views(runs, lambda request, start: None)
        response = views.show(WebRequest(original="anna", environ=environ), "x" * 32)
    assert json.loads(response.body)["error"]["code"] == code
