"""The simplest killable, and a real one."""

import socket

from syncagent.cancel import Killable


class Counter(Killable):
    """Counts how often it was fired and let go."""

    def __init__(self):
        super().__init__()
        self.fired = 0
        self.let_gone = 0

    def fire(self):
        self.fired += 1

    def let_go(self):
        self.let_gone += 1


class Sock(Killable):
    """A duplicate of a live socket; firing shuts the connection down."""

    def __init__(self, sock):
        super().__init__()
        self.duplicate = sock.dup()

    def fire(self):
        self.duplicate.shutdown(socket.SHUT_RDWR)
        self.duplicate.close()

    def let_go(self):
        self.duplicate.close()
