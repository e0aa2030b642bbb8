"""Runs of a store, carried by Huey: two SQLite files, and no server."""

import os

from huey import SqliteHuey
from shop import make_agent

from syncagent.integrations.huey import connect
from syncagent.stores import RunStore

huey = SqliteHuey(filename=os.environ["HUEY_FILE"])


@huey.task(retries=3, retry_delay=1)
def work(run_id):
    store.work(run_id)


store = RunStore(
    os.environ["SYNCAGENT_STORE"],
    make_agent,
    enqueue=lambda run: work(run.id),
)
connect(huey, store)
