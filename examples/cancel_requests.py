"""Use requests as always, with a session whose calls end when a token is cancelled.

Run it: python examples/cancel_requests.py
There is no model in it: ctx.http of a tool is such a session.
"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from syncagent import Cancelled, CancelToken
from syncagent.transport import CancellableSession

over = threading.Event()


class Slow(BaseHTTPRequestHandler):
    """A server that answers one path at once, and the others not for a minute."""

    def do_GET(self):
        if self.path != "/fast" and over.wait(60):
            return
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"

    token = CancelToken()
    session = CancellableSession(token)
    print("fast:", session.get(f"{url}/fast").json())
    threading.Timer(0.3, token.cancel, ["user pressed stop"]).start()
    try:
        session.get(f"{url}/slow")  # no timeout: it would wait a minute
    except Cancelled as stop:
        print(f"slow: stopped, because {stop.reason}")
    try:
        session.get(f"{url}/fast")
    except Cancelled:
        print("fast: not even begun, as the token is cancelled")
    over.set()
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
