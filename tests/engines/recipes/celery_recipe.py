"""Runs of a store, carried by Celery."""

import os

from celery import Celery
from shop import make_agent

from syncagent.integrations.celery import connect
from syncagent.stores import RunStore

app = Celery("shop", broker=os.environ["REDIS_URL"])
app.conf.worker_prefetch_multiplier = 1
app.conf.worker_disable_prefetch = True  # on Redis: no run waits behind a long one


@app.task(ignore_result=True)
def work(run_id):
    store.work(run_id)


store = RunStore(
    os.environ["SYNCAGENT_STORE"],
    make_agent,
    enqueue=lambda run: work.delay(run.id),
)
connect(app, store)
