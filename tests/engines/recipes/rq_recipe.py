"""Runs of a store, carried by RQ."""

import os

from redis import Redis
from rq import Queue, Worker
from shop import make_agent

from syncagent.integrations.rq import connect
from syncagent.stores import RunStore

queue = Queue("runs", connection=Redis.from_url(os.environ["REDIS_URL"]))


def work(run_id):
    store.work(run_id)


store = RunStore(
    os.environ["SYNCAGENT_STORE"],
    make_agent,
    enqueue=lambda run: queue.enqueue(work, run.id, job_timeout=-1, result_ttl=0),
)
RunWorker = connect(Worker, store)
