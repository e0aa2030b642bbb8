"""Calls by the official client, in an environment that has it (``mcp`` 2.3).

Run as a script there; prints the median seconds of a call.
"""

import asyncio  # noqa: TID251 - the official client needs it
import statistics
import sys
import time

ROUNDS, CALLS = 7, 100


async def measure(connect):
    async with connect as session:
        times = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            for _ in range(CALLS):
                await session.call_tool("add", {"a": 2, "b": 3})
            times.append((time.perf_counter() - begin) / CALLS)
    print(statistics.median(times))


def main(kind, *rest):
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    if kind == "stdio":
        server = stdio_client(
            StdioServerParameters(command=rest[0], args=list(rest[1:]))
        )
        asyncio.run(measure(Client(server)))
    else:
        asyncio.run(measure(Client(rest[0])))


if __name__ == "__main__":
    main(*sys.argv[1:])
