"""Runs of a store, carried by Procrastinate: PostgreSQL and nothing else."""

import os

from procrastinate import App, PsycopgConnector
from shop import make_agent

from syncagent.integrations.procrastinate import connect
from syncagent.stores import RunStore

URL = os.environ["SYNCAGENT_STORE"]  # one database for both
app = App(
    connector=PsycopgConnector(conninfo=URL),
    worker_defaults={"concurrency": 20, "delete_jobs": "always"},
)


@app.task(queue="agents")
def work(run_id):
    store.work(run_id)


store = RunStore(URL, make_agent, enqueue=lambda run: work.defer(run_id=run.id))
connect(app, store)
