"""A site like the example whose workers count as dead soon."""

import os
import secrets

from flask import Flask, session

from syncagent import Agent
from syncagent.cli.demo.model import demo_model
from syncagent.cli.demo.tools import demo_tools
from syncagent.integrations.flask import SyncAgent
from syncagent.stores import RunStore


def make_agent(run):
    return Agent(demo_model(), tools=demo_tools(), name="demo")


def visitor(request):
    return session.get("visitor")


app = Flask(__name__)
app.config.from_prefixed_env()
store = RunStore(os.environ["STORE"], make_agent, lease=1.5, timeout=2)
agents = SyncAgent(
    app,
    owner_of=visitor,
    authorize=lambda request, run: run.owner == visitor(request),
    store=store,
)
app.register_blueprint(agents.create_blueprint(), url_prefix="/agent")


@app.before_request
def identify_visitor():
    session.setdefault("visitor", secrets.token_urlsafe(16))
