"""A server's own account of its tool calls, for the tests to read.

A line goes to a datagram socket, on which a test can wait, or is appended to a file.
"""

import os
import socket
import stat


class Journal:
    """Writes lines to a path: that of a Unix datagram socket, or of a file."""

    def __init__(self, path):
        self._path = path

    def write(self, *words):
        line = " ".join(map(str, words))
        if self._is_socket():
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(line.encode(), self._path)
        else:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(line + "\n")

    def _is_socket(self):
        try:
            return stat.S_ISSOCK(os.stat(self._path).st_mode)
        except FileNotFoundError:
            return False
