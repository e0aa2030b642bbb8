"""Hints between the processes of one host: datagrams in a folder of sockets.

A hint names runs, and says no more than "look". It may be lost, doubled or forged: the
receiver reads the store, and believes only that.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

__all__ = ["Datagrams"]

#: Bytes of a datagram. Longer lists become the hint to look at everything.
_LONGEST: Final = 4096
_GONE: Final = frozenset((errno.ECONNREFUSED, errno.ENOENT))


class Datagrams:
    """One socket of this process, and those of all others in the same folder.

    :param folder: is made when it is first needed, for this user only.
    """

    def __init__(self, folder: str) -> None:
        self._folder: Final = folder
        self._socket: socket.socket | None = None
        self._name = ""
        self._sender: socket.socket | None = None
        #: Ends the wait; also where the folder is gone, and with it the socket's name.
        self._wakers: tuple[socket.socket, socket.socket] | None = None
        self._is_stopped = self._is_closed = False
        #: Held to make and to close the socket that sends.
        self._lock = threading.Lock()

    @contextmanager
    def _place(self) -> Iterator[str]:
        """Yield a short path of the folder: the paths of sockets are limited."""
        if len(os.fsencode(self._folder)) < 60 or not os.path.isdir("/proc/self/fd"):
            yield self._folder
            return
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)

    def listen(self, name: str, on_hint: Callable[[Sequence[str]], object]) -> None:
        """Pass on hints until :meth:`stop`.

        :param name: of this process.
        :param on_hint: called with run ids; without any if anything may be new.
        """
        os.makedirs(os.path.dirname(self._folder), 0o700, exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(self._folder, 0o700)
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        wakers = socket.socketpair()
        try:
            wakers[1].setblocking(False)
            with self._place() as place:
                receiver.bind(f"{place}/{name}")
            self._socket, self._name = receiver, name
            self._wakers = wakers  # publish first, then look
            on_hint(())  # now that none can be missed
            while not self._is_stopped:
                if not _wait(receiver, wakers[0]):
                    break  # stopped; or no one can send to us, so the caller tries anew
                text = receiver.recv(_LONGEST + 1).decode(errors="replace")
                if text:
                    on_hint(() if text == "*" else text.split(","))
        finally:
            self._socket = self._wakers = None
            with suppress(OSError):
                os.unlink(os.path.join(self._folder, name))
            for each in (receiver, *wakers):
                each.close()

    def send(self, run_ids: Sequence[str]) -> None:
        """Send a hint to all other processes. Never blocks, and never fails."""
        hint = ",".join(dict.fromkeys(run_ids)).encode()
        if not hint:
            return
        if len(hint) > _LONGEST:
            hint = b"*"
        names: list[str] = []
        with suppress(OSError):  # no one listens
            names = os.listdir(self._folder)
        if self._socket is not None and self._name not in names:
            self._wake()  # the folder was deleted
        others = [name for name in names if name != self._name]
        if others:
            with suppress(OSError), self._place() as place:
                for name in others:
                    self._send_to(f"{place}/{name}", hint)

    def _send_to(self, path: str, hint: bytes) -> None:
        sender = self._sender or self._open_sender()
        if sender is None:
            return
        try:
            sender.sendto(hint, path)
        except OSError as error:
            if error.errno in _GONE:  # its process is dead
                with suppress(OSError):
                    os.unlink(path)

    def _open_sender(self) -> socket.socket | None:
        """Return the one socket that all threads send with; None after the end."""
        with self._lock:
            if self._sender is None and not self._is_closed:
                sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                sender.setblocking(False)
                self._sender = sender
            return self._sender

    def stop(self) -> None:
        """End :meth:`listen`, from any thread. Safe to repeat."""
        self._is_stopped = True
        self._wake()

    def close(self) -> None:
        """End everything: nothing is sent any more. Safe to repeat."""
        self.stop()
        with self._lock:
            self._is_closed = True
            sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()

    def _wake(self) -> None:
        wakers = self._wakers
        if wakers is not None:
            with suppress(OSError):
                wakers[1].send(b"\0")

    def check(self) -> str:
        """Return how many processes listen."""
        try:
            return f"datagrams to {len(os.listdir(self._folder))} processes"
        except OSError:
            return "datagrams; no process listens"

    def start_over(self) -> None:
        """Close the sockets in a forked child: they are its parent's."""
        for each in (self._socket, self._sender, *(self._wakers or ())):
            if each is not None:
                each.close()
        self._socket = self._sender = self._wakers = None
        self._name, self._lock = "", threading.Lock()
        self._is_stopped = self._is_closed = False


def _wait(receiver: socket.socket, woken: socket.socket) -> bool:
    """Wait until a datagram is there; false if *woken* ended the wait."""
    poller = select.poll()
    for each in (receiver, woken):
        poller.register(each, select.POLLIN)
    return all(number != woken.fileno() for number, _ in poller.poll())
