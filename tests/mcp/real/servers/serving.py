"""Arguments of the test servers, and their HTTP on a port that the system chooses."""

import argparse
import asyncio
import socket
import sys


def arguments():
    """Return the arguments of a test server."""
    parser = argparse.ArgumentParser()
    parser.add_argument("transport", choices=["stdio", "http", "sse"])
    parser.add_argument("--journal", default="/dev/null", help="a socket or a file")
    parser.add_argument("--stateless", action="store_true", help="no sessions")
    parser.add_argument("--json", action="store_true", help="JSON instead of SSE")
    parser.add_argument("--port", type=int, default=0)
    return parser.parse_args()


def serve(app, port):
    """Serve an ASGI app on the loopback, and print the port once it is bound."""
    import uvicorn

    listener = socket.create_server(("127.0.0.1", port))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
    sys.exit(0)
