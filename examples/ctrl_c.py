"""Let Ctrl+C (or SIGTERM) end the work in many threads, cleanly.

Run it: python examples/ctrl_c.py    (it sends itself the Ctrl+C)
With a real model: agent.run(prompt) in each thread; the block cancels runs, too.
"""

import os
import signal
import threading

from syncagent import Cancelled, cancel_on_signals


def work(number, token):
    try:
        while True:
            token.sleep(60)
    except Cancelled as stop:
        print(f"worker {number} ended by {stop.origin}: {stop.reason}")


def main():
    with cancel_on_signals() as token:  # a second Ctrl+C would go through
        workers = [
            threading.Thread(target=work, args=(number, token.child()))
            for number in range(3)
        ]
        for worker in workers:
            worker.start()
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        for worker in workers:
            worker.join()
    print("all ended, nothing left")


if __name__ == "__main__":
    main()
