"""A process of the load test that cancels runs and answers questions, at random.

::

    load_desk.py URL NAME DELAY QUEUE < ids

It ends with its input, and then prints as JSON what it was told.
"""

import json
import logging
import random
import sys
import threading
import time

from support.load_queue import put
from support.threads import together
from syncagent.exceptions import StoreUnavailable
from syncagent.stores import RunStore

#: The part of all runs that this process cancels.
CANCELLED = 0.2
#: When a run is cancelled, as parts of the longest delay: at once, soon, late.
MOMENTS = (0.0, 0.04, 0.25, 1.0)
#: Seconds that a call waits for the store: fewer than a restart takes.
TIMEOUT = 0.3
#: Seconds within which a cancelled run has ended.
PATIENCE = 120.0


class Desk:
    """Cancels and answers, and keeps every reply."""

    def __init__(self, url, name, delay, queue):
        self._name = name
        self._delays = [moment * delay for moment in MOMENTS]
        self._dice = random.Random(name)
        self._over = threading.Event()
        #: One hands runs to the queue, one leaves that to the sweeps of workers.
        self._stores = [
            RunStore(url, enqueue=lambda run: put(queue, run.id), timeout=TIMEOUT),
            RunStore(url, timeout=TIMEOUT),
        ]
        self.told = {"receipts": [], "answers": [], "unknown": [], "retries": 0}

    def work(self, ids):
        """Go on until there are no more ids."""
        answering = threading.Thread(target=self._answer_all)
        answering.start()
        cancels = []
        for id in ids:
            if self._dice.random() < CANCELLED:
                delay = self._dice.random() * self._dice.choice(self._delays)
                cancels.append(threading.Timer(delay, self._cancel, [id.strip()]))
                cancels[-1].start()
        for each in cancels:
            each.join()
        self._over.set()
        answering.join()
        for store in self._stores:
            store.close()

    def _persist(self, operation, *run_ids):
        """Repeat an operation until the store has replied."""
        while True:
            try:
                return operation()
            except StoreUnavailable:
                self.told["retries"] += 1
                self.told["unknown"] += run_ids
                self._over.wait(0.05)

    def _cancel(self, id):
        store = random.choice(self._stores)

        def cancel():
            return time.monotonic(), store.cancel(id, by=self._name)

        since, receipt = self._persist(cancel, id)
        has_ended = self._persist(lambda: receipt.wait(PATIENCE))
        seconds = time.monotonic() - since
        told = (id, bool(receipt), receipt.first, receipt.phase, has_ended, seconds)
        self.told["receipts"].append(told)

    def _answer_all(self):
        while not self._over.wait(0.1):
            store = random.choice(self._stores)
            for entry in self._persist(lambda store=store: store.inbox(limit=500)):
                if random.random() < 0.4:
                    self._answer(entry)

    def _answer(self, entry):
        """Say yes or no; or both at once, and see which counts."""
        sides = [True, False]
        random.shuffle(sides)

        def say(store, allow):
            id, question, by = entry.run.id, entry.question.id, f"{self._name} {allow}"
            answer = {question: allow}
            replies = self._persist(lambda: store.answer(id, answer, by=by), question)
            told = (entry.run.run_id, question, by, replies[question])
            self.told["answers"].append(told)

        if random.random() < 0.3:
            together(
                *(
                    lambda store=store, allow=allow: say(store, allow)
                    for store, allow in zip(self._stores, sides, strict=True)
                )
            )
        else:
            say(random.choice(self._stores), sides[0])


if __name__ == "__main__":
    url, name, delay, queue = sys.argv[1:]
    logging.basicConfig(level=logging.ERROR)
    desk = Desk(url, name, float(delay), int(queue))
    desk.work(sys.stdin)
    print(json.dumps(desk.told))
