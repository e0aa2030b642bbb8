"""Systems without epoll, and without the signals of POSIX."""

import subprocess
import sys

import pytest
from support.processes import script_environment
from support.threads import LONG

#: Removed before anything is imported, as if they had never been there.
WINDOWS = """
import os, select, signal, socket
for module, names in (
    (select, ("epoll", "poll", "POLLRDHUP", "POLLIN")),
    (signal, ("SIGQUIT", "SIGKILL", "SIGALRM", "siginterrupt", "SIGHUP", "SIGUSR1")),
    (os, ("eventfd",)),
    (socket, ("MSG_DONTWAIT",)),
):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""
#: As gevent does after the imports of a configuration file.
GEVENT = """
import select
from syncagent.integrations.web import watcher
for name in ("epoll", "kqueue", "devpoll", *MORE):
    if hasattr(select, name):
        delattr(select, name)
"""
WATCH = """
import socket, threading
from syncagent.integrations.web.watcher import Connection, StallCheck, watch
ours, theirs = socket.socketpair()
lost = threading.Event()
watch(Connection(ours.fileno(), ours), lost.set)
theirs.close()
assert lost.wait(10)
ours.close()
ours, theirs = socket.socketpair()
lost.clear()
watch(Connection(ours.fileno(), ours), lost.set, StallCheck(lambda: True, 0.1))
assert lost.wait(10)
assert theirs.recv(1) == b""
ours.close()
theirs.close()
print("seen")
"""


def run_code(code):
    """Run code in an interpreter of its own, and return what it has written."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        env=script_environment(),
    )
    return ended.stdout + ended.stderr


def test_import_on_windows():
    """L13: the integrations can be imported where there is no SIGQUIT."""
    names = ("web.asgi", "web.wsgi", "gunicorn", "flask", "django.conf")
    imports = [f"import syncagent.integrations.{name}" for name in names]
    code = "\n".join([WINDOWS, *imports, "print('imported')"])
    assert run_code(code) == "imported\n"


@pytest.mark.parametrize("more", [(), ("poll",)], ids=["gevent", "eventlet"])
def test_green_threads(more):
    """L13: without epoll, or even poll, connections are still watched."""
    assert run_code(f"MORE = {more!r}\n{GEVENT}{WATCH}") == "seen\n"
