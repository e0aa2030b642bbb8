"""Other agent SDKs, beside ours: import, one turn, and a cancel in a silent stream.

Nothing is installed here. ``SYNCAGENT_PEERS`` is a folder with one virtual environment
for each SDK, named as in ``program.PEERS``; ours may be there, too, else the current
interpreter measures it. What is missing is left out. docs/benchmarks.rst has the
commands.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..measure import Row
from .program import PEERS

HERE = Path(__file__).parent
IMPORTS = 5
NAME = "syncagent"


def rows() -> Iterator[Row]:
    """Measure each SDK that is installed, with ours as the floor."""
    with server() as url:
        ours = measured(sys.executable, NAME, url)
        for name in PEERS:
            report = measured(python_of(name), name, url)
            if report is None:
                print(f"{name}: not installed, skipped", flush=True)
                continue
            if name == NAME:
                ours = report
            yield from compared(f"{name} {report['version']}", report, ours)


def compared(name: str, report: dict[str, Any], ours: dict[str, Any]) -> Iterator[Row]:
    """Yield what one SDK takes, as ratios to ours."""
    note = f"{report['distributions']} packages, {report['megabytes']:.0f} MB installed"
    yield row(f"import {name}", report, ours, "import", note)
    yield row(f"a turn over loopback, {name}", report, ours, "turn")
    if report["cancel"] is None:
        print(f"cancel in a silent stream, {name}: it has no cancel", flush=True)
    else:
        yield row(f"cancel in a silent stream, {name}", report, ours, "cancel")


def row(
    name: str, report: dict[str, Any], ours: dict[str, Any], key: str, note: str = ""
) -> Row:
    return Row(name, NAME, report[key] * 1e3, ours[key] * 1e3, "ms", note=note)


def python_of(name: str) -> str:
    """Return the interpreter that has an SDK: its own environment's, or this one."""
    folder = os.environ.get("SYNCAGENT_PEERS")
    python = Path(folder or "", name, "bin", "python")
    return str(python) if folder and python.exists() else sys.executable


def measured(python: str, name: str, url: str) -> dict[str, Any] | None:
    """Return the report of one SDK; ``None`` if it is not installed."""
    report: dict[str, Any] | None = ask(python, name, url)
    if report is not None:
        imports = [ask(python, name, "import") for _ in range(IMPORTS)]
        report["import"] = statistics.median(imports)
    return report


def ask(python: str, *arguments: str) -> Any:
    found = subprocess.run(
        [python, str(HERE / "program.py"), *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OPENAI_API_KEY": "none", "MSWEA_SILENT_STARTUP": "1"},
    )
    return json.loads(found.stdout.splitlines()[-1])


@contextmanager
def server() -> Iterator[str]:
    """Run the provider in a process of its own; give its address."""
    command = [sys.executable, str(HERE / "server.py")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        process.stdin.close()
