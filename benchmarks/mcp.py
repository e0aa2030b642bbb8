"""MCP calls against a loop by hand and the official client, and how fast they end.

The official client is measured if ``SYNCAGENT_MCP_REAL`` names the folder that
``tests/mcp/real/install.py`` has filled.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import requests

from benchmarks.latency import delay, percentile_99
from benchmarks.measure import Row, side_by_side
from benchmarks.servers import servers
from syncagent import Cancelled, CancelToken
from syncagent.mcp import MCPServer
from syncagent.transport import Transport
from syncagent.transport.adapter import shared_adapter

CALLS = 200
TIMES = 120
ROUNDS = 9

HERE = Path(__file__).parent
OURS = [sys.executable, "-m", "benchmarks.mcp_serve"]
ECHO = [sys.executable, str(HERE / "mcp_echo.py")]
PARAMS = {"name": "add", "arguments": {"a": 2, "b": 3}}

T = TypeVar("T")


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    yield from stdio_calls()
    yield from http_calls()
    yield from cancels()
    shared_adapter().close()


# -- calls -----------------------------------------------------------------------------


def stdio_calls() -> Iterator[Row]:
    """A call on pipes, on a thread and on the main thread."""
    for name, command, limit in (
        ("a server of ours", [*OURS, "stdio"], 1.3),
        ("a server that only echoes", [*ECHO, "legacy"], None),
    ):
        with (
            MCPServer.stdio(command, cwd=HERE.parent, inherit_env=True) as server,
            hand_written_stdio(command) as by_hand,
        ):
            for thread, run in (("a thread", on_thread), ("the main thread", here)):
                value, floor = run(
                    lambda: side_by_side(
                        lambda: per_call(lambda: server.call("add", {"a": 2, "b": 3})),
                        lambda: per_call(by_hand),
                        rounds=ROUNDS,
                    )
                )
                yield Row(
                    f"stdio call of {name}, {thread}",
                    "a loop by hand",
                    value * 1e6,
                    floor * 1e6,
                    "us",
                    limit=limit if thread == "a thread" else None,
                )
        if name == "a server of ours":
            yield from against_official("stdio", value, "stdio", *command)


def http_calls() -> Iterator[Row]:
    """A call over HTTP, modern era."""
    process = subprocess.Popen(
        [*OURS, "http"], stdout=subprocess.PIPE, text=True, cwd=HERE.parent
    )
    assert process.stdout is not None
    try:
        url = f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        with MCPServer.http(url) as server, requests.Session() as session:
            by_hand = hand_written_http(session, url)
            value, floor = side_by_side(
                lambda: per_call(lambda: server.call("add", {"a": 2, "b": 3})),
                lambda: per_call(by_hand),
                rounds=ROUNDS,
            )
            yield Row(
                "HTTP call of a server of ours",
                "requests, by hand",
                value * 1e6,
                floor * 1e6,
                "us",
                limit=1.3,
            )
        yield from against_official("HTTP", value, "http", url)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def against_official(name: str, value: float, *arguments: str) -> Iterator[Row]:
    folder = os.environ.get("SYNCAGENT_MCP_REAL")
    if not folder:
        return
    python, script = Path(folder, "mcp2/bin/python"), HERE / "mcp_official.py"
    # -P: this folder has modules with names of the standard library.
    done = subprocess.run(
        [python, "-P", script, *arguments],
        capture_output=True,
        text=True,
        cwd=HERE.parent,
        timeout=300,
        check=True,
    )
    official = float(done.stdout.split()[-1])
    yield Row(
        f"{name} call of a server of ours, beside mcp",
        "the official client, mcp 2.3",
        value * 1e6,
        official * 1e6,
        "us",
    )


def per_call(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - begin) / CALLS


def here(function: Callable[[], T]) -> T:
    return function()


def on_thread(function: Callable[[], T]) -> T:
    results: list[T] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


@contextmanager
def hand_written_stdio(command: list[str]) -> Iterator[Callable[[], object]]:
    """A loop by hand: write a line, read lines until the answer is there."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=HERE.parent
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    number = 0

    def request(method: str, params: dict[str, Any]) -> Any:
        nonlocal number
        number += 1
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        stdin.write(json.dumps(message).encode() + b"\n")
        stdin.flush()
        while True:
            answer = json.loads(stdout.readline())
            if answer.get("id") == number:
                return answer["result"]

    client = {"name": "by hand", "version": "1"}
    request(
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client},
    )
    stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    stdin.flush()
    try:
        yield lambda: request("tools/call", PARAMS)
    finally:
        stdin.close()
        process.wait()
        stdout.close()


def hand_written_http(session: requests.Session, url: str) -> Callable[[], object]:
    """A POST by hand, with the headers that a modern server wants."""
    prefix = "io.modelcontextprotocol/"
    meta = {
        f"{prefix}protocolVersion": "2026-07-28",
        f"{prefix}clientCapabilities": {},
        f"{prefix}clientInfo": {"name": "by hand", "version": "1"},
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "add",
    }
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {**PARAMS, "_meta": meta},
    }

    def call() -> object:
        response = session.post(url, json=message, headers=headers)
        response.raise_for_status()
        return response.json()["result"]

    return call


# -- cancels ---------------------------------------------------------------------------


def cancels() -> Iterator[Row]:
    """From cancel() until the call has returned, per transport and era."""
    randomly = random.Random(TIMES)
    with servers() as (site, _):
        url = site.url("chunked/stall")
        floor = statistics.median(
            cancelled(
                lambda token: Transport().post(url, token=token, json={}), randomly
            )
        )
    for era in ("legacy", "modern"):
        with MCPServer.stdio([*ECHO, era]) as server:
            assert server.era == era
            yield cancel_row(f"stdio, {era}", server, floor, randomly)
    process = subprocess.Popen(
        [*OURS, "fake"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=HERE.parent,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        names = ("HTTP, modern", "HTTP, legacy", "HTTP+SSE")
        for name, url in zip(names, process.stdout.readline().split(), strict=True):
            kind: Any = "sse" if "SSE" in name else "streamable"
            with MCPServer.http(url, kind=kind) as server:
                yield cancel_row(name, server, floor, randomly)
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def cancel_row(
    name: str, server: MCPServer, floor: float, randomly: random.Random
) -> Row:
    server.connect()
    times = cancelled(lambda token: server.call("hang", token=token), randomly)
    return Row(
        f"cancel in a call: {name}",
        "cancel in a POST of the transport",
        statistics.median(times) * 1e6,
        floor * 1e6,
        "us",
        limit=2.0,
        note=f"p99 {percentile_99(times) * 1e3:.2f} ms",
    )


def cancelled(
    call: Callable[[CancelToken], object], randomly: random.Random
) -> list[float]:
    times = []
    for _ in range(TIMES):
        token = CancelToken()

        def block(token: CancelToken = token) -> None:
            try:
                call(token)
            except Cancelled:
                pass

        pause = threading.Event()
        times.append(delay(block, lambda p=pause: p.wait(0.02), token.cancel, randomly))
    return times
