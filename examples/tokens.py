"""The token by itself: stop any work of yours from another thread, or by a deadline.

Run it: python examples/tokens.py
There is no model in it: a token is what every run of an agent has inside.
"""

import threading
import time

from syncagent import Cancelled, CancelToken


def job(token):
    """Do work in pieces; between two of them, wait for something that never comes."""
    for piece in range(1000):
        print(f"piece {piece}")
        token.sleep(0.1 if piece < 2 else 3600)


def main():
    # From another thread.
    token = CancelToken()
    threading.Timer(0.5, token.cancel, ["this takes too long"]).start()
    try:
        job(token)
    except Cancelled as stop:
        late = time.monotonic() - token.reason.at
        print(f"stopped by {stop.origin}: {stop.reason} ({late * 1000:.2f} ms later)")

    # By a deadline: one attempt has a tenth of a second. Its end is not the job's ...
    whole = CancelToken(timeout=0.4)
    for seconds in (0.1, 60):
        attempt = whole.child(timeout=seconds)
        try:
            attempt.sleep(3600)
        except Cancelled as stop:
            print(f"attempt ended by {stop.origin}; the job: {whole!r}")
    # ... but the job's own deadline ends every attempt, however long that might take.


if __name__ == "__main__":
    main()
