"""An agent behind HTTP, with nothing but WSGI: runs end when their client leaves.

Run it: python examples/web_app.py [port]
Then: curl -NH "X-User: anna" -H "Accept: text/event-stream" localhost:8000/runs
    --json '{"prompt": "tell me a story"}'
Press Ctrl+C in the middle: curl ends, and so does the run.
With many users: gunicorn -k gthread --threads 20 web_app:application
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os
import sys
from contextlib import suppress
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIServer, make_server

from syncagent import Agent
from syncagent.cli.demo.model import demo_model
from syncagent.integrations.web.wsgi import Runs, RunsApp, Views


def make_agent(environ, start):
    return Agent(os.environ.get("SYNCAGENT_MODEL") or demo_model())


def user_of(environ):
    return environ.get("HTTP_X_USER")  # use your sessions instead


runs = Runs(lambda environ, run: run.owner == user_of(environ))
application = RunsApp(Views(runs, make_agent, owner_of=user_of))


class Server(ThreadingMixIn, WSGIServer):
    """A thread for each request: Stop is heard while another one streams."""

    daemon_threads = True


def main():
    port = int(sys.argv[1]) if sys.argv[1:] else 8000
    with make_server("127.0.0.1", port, application, Server) as server:
        print(f"serving http://127.0.0.1:{server.server_port}/runs", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    runs.close()


if __name__ == "__main__":
    main()
