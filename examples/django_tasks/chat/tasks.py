"""The agent of the site, and the task that works on its runs."""

import os

from django.tasks import task

from syncagent import Agent
from syncagent.cli.demo.model import demo_model
from syncagent.cli.demo.tools import demo_tools
from syncagent.integrations.django.conf import get_store


def make_agent(run):
    """Return a new agent for a run; the store has its conversation."""
    model = os.environ.get("SYNCAGENT_MODEL") or demo_model()
    return Agent(model, tools=demo_tools(), name="demo")


@task(queue_name="agents")
def work(run_id):
    get_store().work(run_id)


def enqueue(run):
    work.enqueue(run.id)
