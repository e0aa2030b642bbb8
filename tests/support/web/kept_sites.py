"""One application with a store in three frameworks, in this process."""

import json
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from support.web.servers import moments
from syncagent import Agent, ToolContext, tool
from syncagent.integrations.web.stored_runs import StoredRuns
from syncagent.integrations.web.wsgi import RunsApp, Views
from syncagent.interrupts import ApprovalRequest
from syncagent.messages import UserMessage
from syncagent.stores import RunStore
from syncagent.testing import ScriptedModel, call, say

SECRET = "s" * 32
FRAMEWORKS = ["wsgi", "flask", "django"]
#: The groups of people, by name.
GROUPS = {"fin": ["fin", "finance"], "boss": ["finance", "board"]}


@tool(requires_approval=True)
def refund(amount: int) -> str:
    """Refund a customer."""
    return f"refunded {amount}"


@tool
def fail() -> str:
    """Fail."""
    raise OSError("no route to dbhost")


@tool
def wait(ctx: ToolContext) -> str:
    """Wait until it is stopped."""
    ctx.sleep(600)
    return "waited"


def reply(messages):
    """Do what the last prompt says."""
    if not isinstance(messages[-1], UserMessage):
        return "done"
    prompt = messages[-1].content[0].text
    name, _, number = prompt.partition(" ")
    if name == "refund":
        return say(call("refund", {"amount": int(number)}))
    if name in ("fail", "wait"):
        return say(call(name, {}))
    return f"{prompt}, number {sum(isinstance(m, UserMessage) for m in messages)}"


def make_agent(run):
    return Agent(ScriptedModel(reply), tools=[refund, fail, wait])


def approver_of(run, question):
    """Give large refunds to the finance department."""
    if isinstance(question, ApprovalRequest) and question.arguments["amount"] > 100:
        return "finance"
    return None


def approvers_of(request):
    user = _user(request)
    return GROUPS.get(user, [user])


def owner_of(request):
    return _user(request)


def owned(request, run):
    """The request is the name of a user."""
    return run.owner == request


def authorize(request, run):
    return run.owner == _user(request)


def _user(request):
    if isinstance(request, dict):
        return request.get("HTTP_X_USER")
    return request.headers.get("X-User")


class Person:
    """A person with a browser.

    :param send: called with method, path, body and headers; returns status and body.
    """

    def __init__(self, send, name):
        self._send = send
        self.name = name

    def get(self, path):
        return self._ask("GET", path, None, {})

    def post(self, path, body, **headers):
        headers = {"Content-Type": "application/json", **headers}
        return self._ask("POST", path, json.dumps(body).encode(), headers)

    def _ask(self, method, path, body, headers):
        status, said = self._send(
            method, f"/{path}", body, {"X-User": self.name, **headers}
        )
        try:
            return status, json.loads(said)
        except ValueError:  # a page of the framework
            return status, {}

    def start(self, prompt, **more):
        """Begin a run, and return its id."""
        status, said = self.post("runs", {"prompt": prompt, **more})
        assert status == 202, said
        return said["id"]

    def wait(self, id, is_so=lambda view: not view["is_live"]):
        """Wait until a run is as wished, and return its view."""
        views = (self.get(f"runs/{id}")[1] for _ in moments())
        return next(view for view in views if is_so(view))

    def run(self, prompt, **more):
        """Begin a run, and wait for its end."""
        return self.wait(self.start(prompt, **more))

    def ask(self, prompt, **more):
        """Begin a run, and wait for its question; return both ids."""
        id = self.start(prompt, **more)
        view = self.wait(id, lambda view: view["interrupts"])
        return id, view["interrupts"][0]["id"]

    def answer(self, id, question, **answer):
        return self.post(f"runs/{id}/answers", {"answers": {question: answer}})

    def conversation(self, id):
        return self.get(f"conversations/{quote(id, safe='')}")


class KeptSite:
    """The application: its store, and the people who use it."""

    def __init__(self, send, store):
        self._send = send
        self.store = store

    def person(self, name):
        return Person(self._send, name)


@contextmanager
def kept_site(framework, folder, **settings):
    """Run the application in one of the frameworks."""
    has_store = settings.pop("has_store", True)
    functions = {"owner_of": owner_of}
    if settings.pop("has_approvers_of", True):
        functions["approvers_of"] = approvers_of
    store = RunStore(f"sqlite:///{folder}/runs.db", make_agent, approver_of=approver_of)
    make = {"wsgi": _wsgi, "flask": _flask, "django": _django}[framework]
    with make(store if has_store else None, functions, settings) as send:
        try:
            yield KeptSite(send, store)
        finally:
            store.close(0.0)


def _never(*asked):
    raise AssertionError("no run begins here")


@contextmanager
def _wsgi(store, functions, settings):
    from syncagent.integrations.web.runs import Runs

    runs = (
        Runs(authorize) if store is None else StoredRuns(store, authorize, **settings)
    )
    views = Views(runs, None if store else _never, **functions)
    yield _werkzeug_client(RunsApp(views), "")


@contextmanager
def _flask(store, functions, settings):
    from flask import Flask

    from syncagent.integrations.flask import SyncAgent

    app = Flask("kept")
    app.config.update({f"SYNCAGENT_{k.upper()}": v for k, v in settings.items()})
    given = {"make_agent": _never} if store is None else {"store": store}
    agents = SyncAgent(app, authorize=authorize, **functions, **given)
    app.register_blueprint(agents.create_blueprint(), url_prefix="/agent")
    yield _werkzeug_client(app, "/agent")


def _werkzeug_client(app, prefix):
    from werkzeug.test import Client

    client = Client(app)

    def send(method, path, body, headers):
        response = client.open(
            prefix + path, method=method, data=body, headers=list(headers.items())
        )
        return response.status_code, response.text

    return send


@contextmanager
def _django(store, functions, settings):
    import sys

    folder = str(Path(__file__).parents[2] / "integrations" / "django")
    if folder not in sys.path:
        sys.path.append(folder)
    import site_of_tests
    from django.test import Client, override_settings

    agent = _never if store is None else None
    changed = {"AGENT": agent, "STORE": store, "AUTHORIZE": authorize}
    changed |= {name.upper(): value for name, value in (functions | settings).items()}
    changed = {**site_of_tests.SYNCAGENT, **changed}
    client = Client(enforce_csrf_checks=True)
    client.cookies["csrftoken"] = SECRET

    def send(method, path, body, headers):
        headers = {"X-CSRFToken": SECRET, **headers}
        kind = headers.pop("Content-Type", "")
        response = client.generic(method, path, body or b"", kind, headers=headers)
        return response.status_code, response.content.decode()

    with override_settings(SYNCAGENT=changed):
        yield send
