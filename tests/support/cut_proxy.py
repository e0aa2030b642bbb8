"""A proxy before PostgreSQL that cuts a connection at an exact message."""

import select
import shutil
import socket
import tempfile
import threading
from contextlib import suppress

from support.threads import LONG

_PORT = 5432
_BYTES = 1 << 20
#: Seconds that the server has for the reply that gets lost.
_REPLY = 0.2


class CutProxy:
    """Passes all bytes on, and cuts one connection where it is told to.

    :param folder: where the socket of the server is.
    """

    def __init__(self, folder):
        self._server = f"{folder}/.s.PGSQL.{_PORT}"
        self.folder = tempfile.mkdtemp(prefix="syncagent-pg-")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{self.folder}/.s.PGSQL.{_PORT}")
        self._listener.listen()
        #: Messages of clients that still pass; None for all.
        self._left = None
        self._is_before = False
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def cut_at(self, number, *, is_before):
        """Cut the connection at the message with this number from now on.

        :param is_before: the server does not get it; else its reply gets lost.
        """
        with self._lock:
            self._left, self._is_before = number, is_before

    def let_pass(self):
        """Cut no more; return whether the cut has happened."""
        with self._lock:
            left, self._left = self._left, None
            return left is None

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._pass_on, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _pass_on(self, client):
        server = socket.socket(socket.AF_UNIX)
        with client, server, suppress(OSError):
            server.connect(self._server)
            while True:
                for source in select.select([client, server], [], [], LONG)[0]:
                    data = source.recv(_BYTES)
                    if not data:
                        return
                    if source is server:
                        client.sendall(data)
                    elif not self._is_cut():
                        server.sendall(data)
                    else:
                        if not self._is_before:
                            server.sendall(data)
                            # It replies to a part of a pipeline only later.
                            select.select([server], [], [], _REPLY)
                        return

    def _is_cut(self):
        with self._lock:
            if self._left is None:
                return False
            self._left -= 1
            if self._left:
                return False
            self._left = None
            return True

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(LONG)
        shutil.rmtree(self.folder)
