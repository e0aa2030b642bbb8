"""Dramatiq with options of a test for the message of a run, and with little grace."""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from shop import make_agent

from syncagent.integrations.dramatiq import connect
from syncagent.stores import RunStore

broker = RedisBroker(url=os.environ["REDIS_URL"])
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=0, time_limit=float("inf"))
def work(run_id):
    store.work(run_id)


def enqueue(run):
    work.send_with_options(args=(run.id,), **run.labels.get("send", {}))


store = RunStore(os.environ["SYNCAGENT_STORE"], make_agent, enqueue)
connect(broker, store, grace=0.5)
