"""The smallest MCP server on pipes, written by hand: it answers, and can be silent."""

import json
import sys

RESULTS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "echo", "version": "1"},
    },
    "server/discover": {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
    },
    "tools/call": {"content": [{"type": "text", "text": "5"}]},
}


def main(era: str) -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message or params.get("name") == "hang":
            continue
        is_unknown = method not in RESULTS or (
            method == "server/discover" and era == "legacy"
        )
        answer = (
            {"error": {"code": -32601, "message": "no such method"}}
            if is_unknown
            else {"result": RESULTS[method]}
        )
        text = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer})
        sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
