"""A site like the example whose visitors have names, and whose cook is asked."""

import os

from flask import Flask, redirect, session

from syncagent import Agent
from syncagent.cli.demo.model import demo_model
from syncagent.cli.demo.tools import demo_tools
from syncagent.integrations.flask import SyncAgent
from syncagent.interrupts import ApprovalRequest
from syncagent.stores import RunStore


def make_agent(run):
    return Agent(demo_model(), tools=demo_tools(), name="demo")


def visitor(request):
    return session.get("visitor")


def approver_of(run, question):
    """Ask the kitchen about large orders."""
    if isinstance(question, ApprovalRequest) and question.arguments["number"] > 10:
        return "kitchen"
    return None


def approvers_of(request):
    return ["cook", "kitchen"] if visitor(request) == "cook" else [visitor(request)]


app = Flask(__name__)
app.config.from_prefixed_env()
store = RunStore(
    os.environ["STORE"], make_agent, lease=1.5, timeout=2, approver_of=approver_of
)
agents = SyncAgent(
    app,
    owner_of=visitor,
    authorize=lambda request, run: run.owner == visitor(request),
    approvers_of=approvers_of,
    store=store,
)
app.register_blueprint(agents.create_blueprint(), url_prefix="/agent")


@app.before_request
def identify_visitor():
    session.setdefault("visitor", "a visitor without a name")


@app.get("/login/<name>")
def login(name):
    session["visitor"] = name
    return redirect("/agent/")
