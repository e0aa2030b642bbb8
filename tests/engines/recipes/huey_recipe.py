"""Runs of a store, carried by Huey: two SQLite files, and no server."""

import os

from huey import SqliteHuey
from huey.signals import SIGNAL_INTERRUPTED
from shop import make_agent

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


@huey.on_startup()
def open_store():
    store.open()  # takes over the runs of dead consumers


@huey.signal(SIGNAL_INTERRUPTED)
def release_runs(signal, task):
    store.close()  # the consumer ends: others resume its runs
