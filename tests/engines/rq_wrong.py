"""RQ with options of a test for the job of a run, and with workers that do not fork."""

import os

from redis import Redis
from rq import Queue, SimpleWorker, Worker
from shop import make_agent

from syncagent.integrations.rq import connect
from syncagent.stores import RunStore

queue = Queue("runs", connection=Redis.from_url(os.environ["REDIS_URL"]))


def work(run_id):
    store.work(run_id)


def enqueue(run):
    options = {"job_timeout": -1, "job_id": run.id, **run.labels.get("send", {})}
    queue.enqueue(work, run.id, **options)


store = RunStore(os.environ["SYNCAGENT_STORE"], make_agent, enqueue)
RunWorker = connect(Worker, store)
SimpleRunWorker = connect(SimpleWorker, store)
