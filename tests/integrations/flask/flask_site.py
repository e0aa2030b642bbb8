"""The application of these tests, in this process: its user is in ``X-User``."""

import json

from flask import Flask
from support.threads import until

from syncagent import Agent
from syncagent.integrations.flask import SyncAgent

#: Seconds after which a test is stuck.
LONG = 20.0
ANNA = {"X-User": "anna"}
BERT = {"X-User": "bert"}
STREAM = {"Accept": "text/event-stream"}


def user(request):
    return request.headers.get("X-User")


def is_own(request, run):
    return run.owner == user(request)


def make_site(model, *, tools=(), hooks=(), functions=None, **config):
    """Return an application whose agent has that model, and its runs."""
    app = Flask("site")
    app.config.update({f"SYNCAGENT_{name.upper()}": v for name, v in config.items()})
    given = {"owner_of": user, "authorize": is_own}
    given.update(functions or {})
    agents = SyncAgent(
        make_agent=lambda request, start: Agent(model, tools=tools, hooks=hooks),
        **given,
    )
    agents.init_app(app)
    app.register_blueprint(agents.create_blueprint(), url_prefix="/agent")
    return app


class Visitor:
    """A visitor with Flask's own client."""

    def __init__(self, app, headers=ANNA):
        self.app = app
        self._client = app.test_client()
        self._headers = headers

    def post(self, path, body=None, **headers):
        return self._client.post(
            f"/agent/{path}", json=body, headers={**self._headers, **headers}
        )

    def get(self, path, **headers):
        return self._client.get(f"/agent/{path}", headers={**self._headers, **headers})

    def start(self, prompt="Go.", **more):
        """Begin a run, and return its id."""
        response = self.post("runs", {"prompt": prompt, **more})
        assert response.status_code == 202, response.text
        return response.json["id"]

    def wait(self, id, is_so=lambda view: not view["is_live"]):
        """Wait until a run is as wished, and return its view."""
        return until(lambda: _if(is_so, self.get(f"runs/{id}").json))

    def ask(self, id):
        """Wait until a run asks something, and return the id of that."""
        view = self.wait(id, lambda view: view["interrupts"])
        return view["interrupts"][0]["id"]


def _if(is_so, view):
    return view if is_so(view) else None


def events_of(text):
    """Return (name, data) of all events of a stream."""
    found = []
    for part in text.split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in part.splitlines())
        if "event" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found
