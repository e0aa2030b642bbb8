"""A server that sends the statuses, headers and bodies of a list, in order."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class RawServer(ThreadingHTTPServer):
    """Give each request the next response; the last one is for all that follow.

    :param responses: triples of status, headers and body, which may be an object.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, *responses):
        super().__init__(("127.0.0.1", 0), Handler)
        self.responses = responses
        #: The headers of all requests, in order, by lower-case name.
        self.requests = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.thread = Thread(target=self.serve_forever, args=(0.01,))

    def respond(self, handler, body):
        """Return status, headers and body of the next response."""
        return self.responses[min(len(self.requests), len(self.responses)) - 1]

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.thread.join()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    """Answers as its server says."""

    def do_GET(self):
        """Answer as for a POST without a body."""
        self.do_POST()

    def do_POST(self):
        """Answer."""
        sent = self.rfile.read(int(self.headers["Content-Length"] or 0))
        seen = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append(seen)
        status, headers, body = self.server.respond(self, sent)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Print nothing."""
