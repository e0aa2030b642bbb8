"""Google's Vertex, with the application's default credentials."""

import threading

import google.auth
from google.auth.transport.requests import Request

from syncagent import Agent
from syncagent.models import find_model


class GoogleToken:
    """Return a token, and fetch a new one when it expires or was refused."""

    def __init__(self) -> None:
        scopes = ["https://www.googleapis.com/auth/cloud-platform"]
        self.credentials, _ = google.auth.default(scopes=scopes)
        self.lock = threading.Lock()  # google-auth does not lock

    def __call__(self) -> str:
        with self.lock:
            if not self.credentials.valid:
                self.credentials.refresh(Request())
            return self.credentials.token

    def refresh(self) -> None:
        with self.lock:
            self.credentials.refresh(Request())


# Project and location come from GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION.
token = GoogleToken()
for name in ("vertex:gemini-3.8-flash", "vertex:claude-sonnet-5-5"):
    agent = Agent(find_model(name, api_key=token))
    print(agent.run("Hello").text)
