"""Read a stream of events, and stop it in the middle from another thread.

The server is a real one, on this machine, that talks for ever.

Run it: python examples/cancel_a_stream.py
There is no model in it: models of syncagent.models make their requests so.
"""

import itertools
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from syncagent import Cancelled, CancelToken, Timeouts
from syncagent.transport import Transport


class Talker(BaseHTTPRequestHandler):
    """A model that does not come to an end."""

    def do_POST(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for number in itertools.count():
                self.wfile.write(f"data: word {number}\n\n".encode())
                threading.Event().wait(0.05)
        except ConnectionError:
            print("server: the client hung up")

    def log_message(self, *_):
        pass


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Talker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"

    token = CancelToken()
    threading.Timer(0.3, token.cancel, ["that is enough"]).start()
    transport = Transport(timeout=Timeouts(connect=5, stall=30), retries=2)
    try:
        with transport.stream(url, json={"prompt": "Talk!"}, token=token) as events:
            for event in events:  # blocks here, on this thread ...
                print("client:", event.data)
    except Cancelled as stop:  # ... and is out of it a moment after the cancel
        print(f"client: stopped by {stop.origin}, {stop.reason}")
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
