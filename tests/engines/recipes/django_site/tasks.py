"""Runs of the store, carried by django.tasks."""

from django.tasks import task

from syncagent.integrations.django.conf import get_runs


@task(queue_name="agents")
def work(run_id):
    get_runs().store.work(run_id)


def enqueue(run):
    work.enqueue(run.id)
