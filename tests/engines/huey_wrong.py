"""Huey with Redis if there is one, and options of a test for the task of a run."""

import os

from huey import RedisHuey, SqliteHuey
from shop import make_agent

from syncagent.integrations.huey import connect
from syncagent.stores import RunStore

if "REDIS_URL" in os.environ:
    huey = RedisHuey(url=os.environ["REDIS_URL"], blocking=False)
else:
    huey = SqliteHuey(filename=os.environ["HUEY_FILE"])


@huey.task(retries=3, retry_delay=1)
def work(run_id):
    store.work(run_id)


def enqueue(run):
    task = work(run.id, **run.labels.get("send", {}))
    if run.labels.get("is_revoked"):
        task.revoke()


store = RunStore(os.environ["SYNCAGENT_STORE"], make_agent, enqueue)
connect(huey, store)
