"""A worker of the load test: takes ids of runs from a pipe that all workers share.

::

    load_worker.py URL LEASE RUNS_AT_ONCE

The pipe is a queue as engines have one: an id that a worker has taken is gone, also if
the worker is killed before it begins.
"""

import logging
import os
import signal
import sys
import threading

from support.load_queue import take
from support.store_work import make_agent
from support.stored_runs import persist
from syncagent.exceptions import ConfigurationError, StoreUnavailable
from syncagent.stores import RunStore

#: The line in its output for a run that it could not begin, or not any more.
UNAVAILABLE = "unavailable"


def main():
    url, lease, at_once = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    logging.basicConfig(level=logging.ERROR)
    settings = {"lease": float(lease), "max_workers": int(at_once)}
    settings["max_crashes"] = 100  # it is not the runs that kill workers here
    with RunStore(url, make_agent, **settings) as store:
        persist(store.open)
        os.write(1, b"ready\n")
        free = threading.Semaphore(int(at_once))
        while True:
            free.acquire()
            id = take(sys.stdin.fileno())
            threading.Thread(target=work, args=(store, id, free), daemon=True).start()


def work(store, id, free):
    try:
        store.work(id)
    except (StoreUnavailable, ConfigurationError) as error:
        if isinstance(error, ConfigurationError) and "closed" not in str(error):
            raise
        os.write(1, f"{UNAVAILABLE}\n".encode())  # a sweep finds the run
    finally:
        free.release()


if __name__ == "__main__":
    main()
