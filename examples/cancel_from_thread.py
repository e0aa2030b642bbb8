"""Stop a job that blocks this thread from another thread.

Run it: python examples/cancel_from_thread.py
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
    token = CancelToken()
    watchdog = threading.Timer(0.5, token.cancel, ["this takes too long"])
    watchdog.start()
    try:
        job(token)
    except Cancelled as stop:
        late = time.monotonic() - token.reason.at
        print(f"stopped by {stop.origin}: {stop.reason} ({late * 1000:.2f} ms later)")


if __name__ == "__main__":
    main()
