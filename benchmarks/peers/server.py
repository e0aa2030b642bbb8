"""A process that speaks Chat Completions, with nothing but the standard library.

::

    python benchmarks/peers/server.py

It prints its port, and ends when its standard input does. A prompt that contains
"HANG NOW" gets one word and then silence; every other one gets three words. A request
that offers the tool ``final_answer`` is answered by a call of it.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: Seconds of silence, after which the response ends: the longest that a peer can wait.
SILENCE = 8.0
_over = threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        delta = {"role": "assistant", "content": "one two three"}
        reason = "stop"
        for tool in body.get("tools") or ():
            if tool["function"]["name"] == "final_answer":
                function = {"name": "final_answer", "arguments": '{"answer": "one"}'}
                call = {"id": "c1", "type": "function", "function": function}
                delta, reason = (
                    {"role": "assistant", "tool_calls": [call]},
                    "tool_calls",
                )
        hangs = "HANG NOW" in json.dumps(body["messages"])
        if body.get("stream"):
            self.stream(delta, reason, hangs)
            return
        if hangs:
            _over.wait(SILENCE)
        choice = {"index": 0, "message": delta, "finish_reason": reason}
        self.respond("application/json", envelope("chat.completion", [choice]))

    def respond(self, kind, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.write(data)

    def stream(self, delta, reason, hangs):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if hangs:
            delta = {"role": "assistant", "content": "one"}
        for call in delta.get("tool_calls", ()):
            call["index"] = 0
        self.event([{"index": 0, "delta": delta, "finish_reason": None}])
        if hangs:
            _over.wait(SILENCE)
            reason = "stop"
        self.event([{"index": 0, "delta": {}, "finish_reason": reason}])
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def event(self, choices):
        value = envelope("chat.completion.chunk", choices)
        self.chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def chunk(self, data):
        self.write(b"%x\r\n%s\r\n" % (len(data), data))

    def write(self, data):
        try:
            self.wfile.write(data)
        except OSError:  # the client has hung up
            self.close_connection = True

    def log_message(self, *_):
        pass


def envelope(kind, choices):
    """Return a response, or a part of one."""
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    return {
        "id": "r1",
        "object": kind,
        "created": 1,
        "model": "any",
        "choices": choices,
        "usage": usage,
    }


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    _over.set()


if __name__ == "__main__":
    main()
