"""A run of a store as one activity of Temporal."""

import os
import threading
from contextvars import copy_context

from shop import make_agent
from temporalio import activity

from syncagent.stores import RunStore

store = RunStore(os.environ["SYNCAGENT_STORE"], make_agent, enqueue=lambda run: None)


@activity.defn(no_thread_cancel_exception=True)
def work(run_id):
    has_returned = threading.Event()

    def beat():
        while not has_returned.wait(1):
            activity.heartbeat()
            if activity.is_cancelled():
                store.cancel(run_id, "cancelled in Temporal", "remote")

    beats = threading.Thread(target=copy_context().run, args=(beat,))
    beats.start()
    try:
        store.work(run_id)
    finally:
        has_returned.set()
        beats.join()
