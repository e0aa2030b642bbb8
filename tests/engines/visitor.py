"""A visitor of an application: talks in one conversation, over HTTP, with a cookie."""

import json
import re
import time
import uuid
from contextlib import suppress

import requests
from support.threads import LONG, until


class Visitor:
    """A visitor who has opened the page.

    :param of: another browser of the same visitor, whose cookies it has.
    """

    def __init__(self, url, of=None):
        self.conversation = uuid.uuid4().hex if of is None else of.conversation
        self._url = f"{url}agent/"
        self._session = requests.Session()
        self._session.trust_env = False
        if of is not None:
            self._session.cookies.update(of._session.cookies)
        page = self._session.get(url, timeout=LONG).text
        token = re.search('name="csrf-token" content="([^"]*)"', page)
        if token is not None:
            self._session.headers["X-CSRFToken"] = token[1]

    def ask(self, path, body=None, **more):
        """Make a request as the page does."""
        method = "GET" if body is None else "POST"
        return self._session.request(
            method, self._url + path, json=body, timeout=3 * LONG, **more
        )

    def start(self, prompt):
        """Start a run; return its id."""
        body = {"prompt": prompt, "conversation": self.conversation}
        response = self.ask("runs", body)
        assert response.status_code == 202, response.text
        return response.json()["id"]

    def events(self, id):
        """Yield the name and the data of each event; come back if the stream breaks."""
        last, name = "0", ""
        end = time.monotonic() + 4 * LONG
        while name != "end":
            headers = {"Last-Event-ID": last}
            with suppress(requests.RequestException):
                for fields in self._stream(f"runs/{id}/events", headers, end):
                    last, name = fields.get("id", last), fields["event"]
                    yield name, json.loads(fields["data"])

    def _stream(self, path, headers, end):
        """Yield the fields of each event of a stream; fail if it takes too long."""
        fields = {}
        with self.ask(path, headers=headers, stream=True) as response:
            assert response.status_code == 200, response.text
            for line in response.iter_lines(chunk_size=1, decode_unicode=True):
                assert time.monotonic() < end, f"not in {4 * LONG} s: {fields}"
                name, _, value = line.partition(": ")
                fields[name] = value
                if not line:
                    if "event" in fields:
                        yield fields
                    fields = {}

    def say(self, prompt):
        """Do a whole run; return its text."""
        return until_event(self.events(self.start(prompt)), "end")["text"]

    def wait_for_question(self, id):
        """Wait until a run has a question; return its id."""
        return until(lambda: self.ask(f"runs/{id}").json()["interrupts"])[0]["id"]


def until_event(events, name):
    """Read events until one has this name; return its data."""
    for each, data in events:
        if each == name:
            return data
        assert each != "end", f"it ended without {name}: {data}"
    raise AssertionError(f"the stream ended without {name}")
