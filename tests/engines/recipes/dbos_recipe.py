"""Runs of a store, carried by DBOS: a run is one step of one workflow."""

import os

from dbos import DBOS, DBOSClient
from shop import make_agent

from syncagent.stores import RunStore

URL = os.environ["SYNCAGENT_STORE"]  # one database for both
client = DBOSClient(system_database_url=URL)


@DBOS.workflow(name="work")
def work(run_id):
    carry(run_id)


@DBOS.step(name="carry")
def carry(run_id):
    store.work(run_id)


def enqueue(run):
    client.enqueue({"queue_name": "agents", "workflow_name": "work"}, run.id)


store = RunStore(URL, make_agent, enqueue)
