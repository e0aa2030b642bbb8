"""Signals at random moments while the main thread waits on, sets and clears events.

Run with ``token`` or ``event`` and a number of signals. It prints how many came. With a
plain Event it says ``deadlock`` instead: the handler waits for a lock that the code it
interrupted holds.
"""

import os
import random
import signal
import sys
import threading

from syncagent import CancelToken

#: Seconds without a single signal taken, after which nothing moves any more. A busy
#: machine must not look like a deadlock of the token.
STUCK = {"token": 10.0, "event": 1.0}


class Storm:
    """Take signals, one a loop; each sets the event."""

    def __init__(self, event, stuck):
        self.event = event
        self.stuck = stuck
        self.taken = 0
        signal.signal(signal.SIGALRM, self.handle)

    def handle(self, signum, frame):
        self.taken += 1
        self.event.set()

    def run(self, number):
        event, randomly = self.event, random.Random(number)
        while self.taken < number:
            before = self.taken
            signal.setitimer(signal.ITIMER_REAL, randomly.uniform(1e-6, 1e-4))
            while self.taken == before:
                event.wait(randomly.choice((0, 1e-6, 1e-5)))
                event.set()
                event.is_set()
                event.clear()

    def watch(self):
        pause = threading.Event()
        while True:
            before = self.taken
            pause.wait(self.stuck)
            if self.taken == before:
                print("deadlock", flush=True)
                os._exit(1)


def main(kind, number):
    event = CancelToken().signal if kind == "token" else threading.Event()
    storm = Storm(event, STUCK[kind])
    threading.Thread(target=storm.watch, daemon=True).start()
    storm.run(int(number))
    print(storm.taken)


if __name__ == "__main__":
    main(*sys.argv[1:])
