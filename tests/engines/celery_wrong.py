"""The recipe with settings of a test: of the app, of a message, of connect()."""

import json
import os

from celery import Celery
from shop import make_agent

from syncagent.integrations.celery import connect
from syncagent.stores import RunStore

SETTINGS = json.loads(os.environ.get("CELERY_SETTINGS", "{}"))

app = Celery("shop", broker=os.environ["REDIS_URL"])
app.conf.update(worker_prefetch_multiplier=1, worker_disable_prefetch=True)
app.conf.update(SETTINGS.get("app", {}))


@app.task(ignore_result=True)
def work(run_id):
    store.work(run_id)


def enqueue(run):
    work.apply_async([run.id], **run.labels.get("send", {}))


store = RunStore(os.environ["SYNCAGENT_STORE"], make_agent, enqueue)
connect(app, store, **SETTINGS.get("connect", {}))
