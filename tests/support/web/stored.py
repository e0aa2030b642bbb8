"""A server with several workers that share a store."""

import json
import os
import re
import signal
from contextlib import contextmanager

from support.threads import until
from support.web.servers import Client, Server, moments
from syncagent.stores import RunStore

APP = "support.web.stored_app"
WORKERS = 3
#: Seconds after which a worker of these tests counts as dead.
LEASE = 1.5


class StoredServer(Server):
    """gunicorn with workers that share a store, and a look into that store.

    :param folder: for the file of the store.
    :param settings: of the application, as environment variables.
    """

    def __init__(self, folder, *more, workers=WORKERS, app=APP, **settings):
        self.url = settings.setdefault("STORE", f"sqlite:///{folder}/runs.db")
        super().__init__(
            *("gunicorn-gthread", "--workers", str(workers), *more),
            app=app,
            **{"LEASE": str(LEASE), **settings},
        )

    def __enter__(self):
        super().__enter__()
        self.store = self._stack.enter_context(RunStore(self.url))
        # Now, so that no test counts as having opened it.
        self.store.list()
        name = self.store.open().id
        hints = self.url.removeprefix("sqlite:///") + "-hints"
        until(lambda: name in os.listdir(hints))
        return self

    def start(self, talk, fake, user="anna", **more):
        """Begin a run, and return its view."""
        status, said = self.ask("POST", "/runs", _body(talk, fake, more), user=user)
        assert status == 202, said
        return json.loads(said)

    def stream(self, talk, fake, user="anna", **more):
        """Begin a run, and return a client that follows it."""
        body = _body(talk, fake, more)
        accept = {"Accept": "text/event-stream"}
        return Client(self.port, "POST", "/runs", body, user=user, **accept)

    def workers(self):
        """Return the process ids of the workers."""
        return self.processes()[1:]

    def pid_of(self, id):
        """Return the process that works on a run, once there is one."""
        for _ in moments():
            run = self.store.get(id)
            if run.worker:
                return int(run.worker.rpartition(":")[2])
        raise TimeoutError("no worker has the run")

    def kill(self, pid):
        """Kill a worker without a word."""
        os.kill(pid, signal.SIGKILL)

    def view(self, id, **headers):
        """Return a run as the server shows it."""
        status, body = self.ask("GET", f"/runs/{id}", **headers)
        assert status == 200, body
        return json.loads(body)

    def ended(self, id):
        """Wait for the end of a run, and return it."""
        for _ in moments():
            run = self.store.get(id)
            if not run.is_live:
                return run
        raise TimeoutError(f"the run did not end\n{self.stacks()}")

    def cancel(self, id):
        """Stop a run, and return the status."""
        return self.ask("POST", f"/runs/{id}/cancel", {"reason": "the Stop button"})[0]

    def answer(self, id, **answer):
        """Answer the only question of a run, and return the status and the body."""
        (question,) = self.view(id)["interrupts"]
        body = {"answers": {question["id"]: answer}}
        status, said = self.ask("POST", f"/runs/{id}/answers", body)
        return status, json.loads(said)


def _body(talk, fake, more):
    return {"prompt": talk, "options": {"provider": fake.base_url}, **more}


@contextmanager
def elsewhere(server, id, pid, last=""):
    """Follow a run in another worker than *pid*."""
    for _ in moments():
        client = server.follow(id, last)
        if int(client.response.headers["X-Pid"]) != pid:
            with client:
                yield client
            return
        client.vanish()
    raise TimeoutError("no request has reached another worker")


def numbers(events):
    """Return the ids of events, without comments and without the state of the run."""
    return [event[0] for event in events if event and event[0] is not None]


def text_of(events):
    """Return what the model has said, as a page shows it that drops what was lost."""
    text, kept = "", ""
    for event in filter(None, events):
        if event[1] == "text_delta":
            text += event[2]["text"]
        elif event[1] in ("tool_started", "tool_finished"):
            kept = text
        elif event[1] == "resumed":
            text = kept
    return text


def public_ids(log):
    """Return all that looks like the public id of a run."""
    return re.findall(r"\b[0-9a-f]{48}\b", log)
