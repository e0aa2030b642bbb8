"""A site like the example whose runs are in its process: without a store."""

import secrets
from collections import OrderedDict

from flask import Flask, redirect, session

from syncagent import Agent
from syncagent.cli.demo.model import demo_model
from syncagent.cli.demo.tools import demo_tools
from syncagent.integrations.flask import SyncAgent

#: Conversations, in memory only; an application would use a database.
conversations: OrderedDict[tuple[str, str], Agent] = OrderedDict()


def visitor(request):
    """Return the visitor of this session; an application has its own users."""
    return session.get("visitor")


def make_agent(request, start):
    """Return the agent of a conversation, which keeps its transcript."""
    key = (visitor(request), start.conversation)
    if key not in conversations:
        conversations[key] = Agent(demo_model(), tools=demo_tools(), name="demo")
    conversations.move_to_end(key)
    while len(conversations) > 1000:
        conversations.popitem(last=False)
    return conversations[key]


app = Flask(__name__)
app.config.from_mapping(
    SECRET_KEY=secrets.token_bytes(32),  # a fixed secret in an application
    SESSION_COOKIE_SAMESITE="Lax",
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
