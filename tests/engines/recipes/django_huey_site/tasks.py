"""Runs of the store, carried by django.tasks and Huey."""

from django.tasks import task
from huey.contrib.djhuey import on_startup, signal
from huey.signals import SIGNAL_INTERRUPTED

from syncagent.integrations.django.conf import get_runs


@task(queue_name="agents")
def work(run_id):
    get_runs().store.work(run_id)


def enqueue(run):
    work.enqueue(run.id)


@on_startup()
def open_store():
    get_runs().store.open()  # takes over the runs of dead consumers


@signal(SIGNAL_INTERRUPTED)
def release_runs(name, task):
    get_runs().store.close()  # the consumer ends: others resume its runs
