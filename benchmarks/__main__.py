"""Print one table of all benchmarks; write it as JSON too.

::

    python -m benchmarks [--json benchmarks/results.json] [--only token sse]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks import (
    agent,
    agent_cancel,
    agent_crowd,
    agent_loop,
    compaction,
    engines,
    fixed,
    functions,
    handles,
    latency,
    limits,
    many,
    mcp,
    models,
    paced,
    recording,
    sse,
    stores,
    token,
    transport,
    web,
)
from benchmarks.measure import Row

AREAS = {
    "token": token.rows,
    "sse": sse.rows,
    "transport": transport.rows,
    "latency": latency.rows,
    "models": models.rows,
    "agent": agent.rows,
    "agent_loop": agent_loop.rows,
    "agent_crowd": agent_crowd.rows,
    "many": many.rows,
    "compaction": compaction.rows,
    "limits": limits.rows,
    "paced": paced.rows,
    "agent_cancel": agent_cancel.rows,
    "fixed": fixed.rows,
    "handles": handles.rows,
    "functions": functions.rows,
    "recording": recording.rows,
    "stores": stores.rows,
    "engines": engines.rows,
    "mcp": mcp.rows,
    "web": web.rows,
}


def main() -> int:
    options = arguments()
    rows = []
    print(f"Python {platform.python_version()}, {platform.machine()}\n")
    print(f"{'':48} {'value':>10} {'floor':>10} {'ratio':>7} {'limit':>9}")
    for area in options.only or AREAS:
        for row in AREAS[area]():
            print(line(row), flush=True)
            rows.append((area, row))
    options.json.write_text(json.dumps(report(rows), indent=2) + "\n")
    print(f"\nalso written to {options.json}")
    return int(any(row.verdict == "ABOVE" for _, row in rows))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--only", nargs="*", choices=AREAS, help="these areas only")
    parser.add_argument(
        "--json", type=Path, default=Path(__file__).parent / "results.json"
    )
    return parser.parse_args()


def line(row: Row) -> str:
    limits = [
        "" if row.limit is None else f"{row.limit:.2f}x",
        "" if row.most is None else f"{row.most:g} {row.unit}",
    ]
    return (
        f"{row.name:48} {row.value:7.1f} {row.unit:<2} {row.floor:7.1f} {row.unit:<2} "
        f"{row.ratio:6.2f}x {' '.join(filter(None, limits)):>9} {row.verdict:5} "
        f"floor: {row.floor_name}" + (f" ({row.note})" if row.note else "")
    )


def report(rows: list[tuple[str, Row]]) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "rows": [
            {"area": area, **asdict(row), "ratio": row.ratio, "verdict": row.verdict}
            for area, row in rows
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
