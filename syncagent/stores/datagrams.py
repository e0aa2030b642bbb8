"""Hints between the processes of one host: datagrams in a folder of sockets.

A hint names runs, and says no more than "look". It may be lost, doubled or forged: the
receiver reads the store, and believes only that.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

__all__ = ["Datagrams"]

#: Bytes of a datagram. Longer lists become the hint to look at everything.
_LONGEST: Final = 4096
#: Sent to itself to end the wait.
_STOP: Final = b"\0"
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
        self._is_stopped = False

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
        try:
            with self._place() as place:
                receiver.bind(f"{place}/{name}")
            self._socket, self._name = receiver, name
            on_hint(())  # now that none can be missed
            while not self._is_stopped:
                received = receiver.recv(_LONGEST + 1)
                if received == _STOP or not received:
                    continue
                text = received.decode(errors="replace")
                on_hint(() if text == "*" else text.split(","))
        finally:
            self._socket = None
            with suppress(OSError):
                os.unlink(os.path.join(self._folder, name))
            receiver.close()

    def send(self, run_ids: Sequence[str]) -> None:
        """Send a hint to all other processes. Never blocks, and never fails."""
        hint = ",".join(dict.fromkeys(run_ids)).encode()
        if not hint:
            return
        if len(hint) > _LONGEST:
            hint = b"*"
        try:
            names = os.listdir(self._folder)
        except OSError:
            return  # no one listens
        others = [name for name in names if name != self._name]
        if others:
            with suppress(OSError), self._place() as place:
                for name in others:
                    self._send_to(f"{place}/{name}", hint)

    def _send_to(self, path: str, hint: bytes) -> None:
        sender = self._sender
        if sender is None:
            sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            sender.setblocking(False)
            self._sender = sender
        try:
            sender.sendto(hint, path)
        except OSError as error:
            if error.errno in _GONE:  # its process is dead
                with suppress(OSError):
                    os.unlink(path)

    def stop(self) -> None:
        """End :meth:`listen`, from any thread. Safe to repeat."""
        self._is_stopped = True
        receiver, sender = self._socket, self._sender
        self._sender = None
        if receiver is not None:
            waker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            with suppress(OSError), waker, self._place() as place:
                waker.sendto(_STOP, f"{place}/{self._name}")
        if sender is not None:
            sender.close()

    def check(self) -> str:
        """Return how many processes listen."""
        try:
            return f"datagrams to {len(os.listdir(self._folder))} processes"
        except OSError:
            return "datagrams; no process listens"

    def start_over(self) -> None:
        """Close the sockets in a forked child: they are its parent's."""
        for each in (self._socket, self._sender):
            if each is not None:
                each.close()
        self._socket = self._sender = None
        self._name, self._is_stopped = "", False
