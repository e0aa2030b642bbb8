"""An agent behind HTTP, whose runs end when their client leaves.

The example serves itself, starts a run, and disconnects before it ends.
Serve it: gunicorn -k gthread --threads 20 web_app:application
Run it: python examples/web_app.py
With a real model: put "openai:gpt-6-luna" in place of the scripted one.
"""

import http.client
import threading
from wsgiref.simple_server import WSGIRequestHandler, make_server

from syncagent import Agent
from syncagent.integrations.web.wsgi import Runs, RunsApp, Views
from syncagent.testing import Gate, ScriptedModel

silence = Gate()  # the model does not respond


def make_agent(environ, start):
    return Agent(ScriptedModel([silence, "This is never sent."]))


def user_of(environ):
    return environ.get("HTTP_X_USER")  # use your sessions instead


runs = Runs(lambda environ, run: run.owner == user_of(environ))
application = RunsApp(Views(runs, make_agent, owner_of=user_of))


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


def main():
    with make_server("127.0.0.1", 0, application, handler_class=Quiet) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()

        client = http.client.HTTPConnection("127.0.0.1", server.server_port)
        headers = {"X-User": "anna", "Content-Type": "application/json"}
        headers["Accept"] = "text/event-stream"
        client.request("POST", "/runs", b'{"prompt": "Tell me a story."}', headers)
        response = client.getresponse()
        print(response.status, response.readline().decode().strip())
        silence.wait_reached()
        response.close()  # the tab is closed
        client.close()
        (run,) = runs.list({"HTTP_X_USER": "anna"})
        result = run.handle.result(timeout=10)
        print(result.stop_reason, "by", result.cancellation.origin)
        server.shutdown()
        serving.join()
    runs.close()


if __name__ == "__main__":
    main()
