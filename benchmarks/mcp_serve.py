"""Servers for the MCP benchmarks, each in a process of its own.

::

    python -m benchmarks.mcp_serve stdio    our own server on pipes, both eras
    python -m benchmarks.mcp_serve http     our own server, by waitress; prints a port
    python -m benchmarks.mcp_serve fake     the server of the test kit; prints its URLs
"""

import sys

from syncagent import tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def main(kind: str) -> None:
    if kind == "fake":
        serve_fake()
        return
    from syncagent.mcp import MCPService

    service = MCPService([add])
    if kind == "stdio":
        service.serve_stdio()
    else:
        import waitress

        from syncagent.integrations.web.mcp import MCPApp

        server = waitress.create_server(MCPApp(service), host="127.0.0.1", port=0)
        print(server.effective_port, flush=True)
        server.run()


def serve_fake() -> None:
    """Serve tools that add and that hang, until the input ends."""
    from syncagent.testing import FakeMCPServer

    with FakeMCPServer(era="modern") as modern, FakeMCPServer(era="legacy") as legacy:
        for server in (modern, legacy):
            server.tool(add.function)
            server.tool(hang)
        print(modern.url, legacy.url, legacy.sse_url, flush=True)
        sys.stdin.read()


def hang(ctx) -> str:  # type: ignore[no-untyped-def]
    """Wait until the client cancels."""
    ctx.until_cancelled()
    return "cancelled"


if __name__ == "__main__":
    main(sys.argv[1])
