"""A signal handler that raises, at random moments in the middle of cancel().

Run with the number of cancels that are to be interrupted; prints how many were, and how
many of them left something asleep.
"""

import random
import signal
import sys
import time

from counting import Counter

from syncagent import CancelToken


class Stop(BaseException):
    """What a second Ctrl+C raises."""


def handle(signum, frame):
    raise Stop


def family():
    """Return a token and killables on it and on its child."""
    token, counters = CancelToken(), [Counter() for _ in range(6)]
    child = token.child()
    for number, counter in enumerate(counters):
        (child if number % 3 == 1 else token).attach(counter)
    return token, child, counters


def storm(number, seconds=25.0):
    signal.signal(signal.SIGALRM, handle)
    randomly, end = random.Random(number), time.monotonic() + seconds
    interrupted = asleep = 0
    while interrupted < number and time.monotonic() < end:
        token, _child, counters = family()
        try:
            signal.setitimer(signal.ITIMER_REAL, randomly.uniform(1e-6, 6e-5))
            token.cancel()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Stop:
            interrupted += token.cancelled
            if token.cancelled and not all(c.fired >= 1 for c in counters):
                asleep += 1
    return interrupted, asleep


if __name__ == "__main__":
    print(*storm(int(sys.argv[1])))
