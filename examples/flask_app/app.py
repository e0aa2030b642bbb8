"""A chat on the web whose Stop button works: streams, tools, approvals, many workers.

Install it: pip install ".[flask]"
Run it: flask --app examples/flask_app/app.py run
Then open http://127.0.0.1:5000/agent/ and say "help".
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
Stop the server in the middle of a story and start it again: the story and the chats go
on. FLASK_SECRET_KEY is for a real secret.
With several workers, from this folder: gunicorn -w 3 -k gthread --threads 20
    -c python:syncagent.integrations.gunicorn app:app
"""

import os
import secrets

from flask import Flask, redirect, session

from syncagent import Agent
from syncagent.cli.demo.model import demo_model
from syncagent.cli.demo.tools import demo_tools
from syncagent.integrations.flask import SyncAgent


def make_agent(run):
    """Return a new agent for a run; the store has its conversation."""
    model = os.environ.get("SYNCAGENT_MODEL") or demo_model()
    return Agent(model, tools=demo_tools(), name="demo")


def visitor(request):
    """Return the visitor of this session; an application has its own users."""
    return session.get("visitor")


app = Flask(__name__)
app.config.from_mapping(
    SECRET_KEY="not secret: an example",
    SESSION_COOKIE_SAMESITE="Lax",
    SYNCAGENT_STORE="sqlite:///runs.db",  # any worker can stop, follow and answer runs
    SYNCAGENT_TITLE="syncagent demo",
    SYNCAGENT_SUGGESTIONS=["tell me a story", "work 20 seconds", "order 2 pizzas"],
)
app.config.from_prefixed_env()  # FLASK_SYNCAGENT_OPERATOR_TOKEN and the like
agents = SyncAgent(
    app,
    make_agent=make_agent,
    owner_of=visitor,
    authorize=lambda request, run: run.owner == visitor(request),
)
app.register_blueprint(agents.create_blueprint(), url_prefix="/agent")


@app.before_request
def identify_visitor():
    session.setdefault("visitor", secrets.token_urlsafe(16))


@app.get("/")
def index():
    return redirect("/agent/")
