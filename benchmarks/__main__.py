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
from importlib import import_module
from pathlib import Path

from benchmarks.measure import Row

#: Each is a module here with a function ``rows``.
AREAS = (
    *("token", "sse", "transport", "latency", "models"),
    *("agent", "agent_loop", "agent_crowd", "many", "compaction", "paced"),
    *("agent_cancel", "fixed", "handles", "functions", "recording"),
    *("stores", "engines", "mcp", "web", "peers"),
)
#: The extra with the packages that an area needs.
EXTRAS = {"engines": "test,engines"}


def main() -> int:
    options = arguments()
    rows, skipped = [], []
    print(f"Python {platform.python_version()}, {platform.machine()}\n")
    print(f"{'':48} {'value':>10} {'floor':>10} {'ratio':>7} {'limit':>9}")
    for area in options.only or AREAS:
        missing = missing_package(area)
        if missing:
            skipped.append(area)
            extra = EXTRAS.get(area, "test")
            advice = f'{sys.executable} -m pip install ".[{extra}]"'
            print(f"{area}: not measured, it needs {missing}: {advice}", flush=True)
            continue
        for row in import_module(f"benchmarks.{area}").rows():
            print(line(row), flush=True)
            rows.append((area, row))
    if skipped:
        print(f"\nnot measured: {', '.join(skipped)}")
    if not rows:
        return 1
    options.json.write_text(json.dumps(report(rows), indent=2) + "\n")
    print(f"\nalso written to {options.json}")
    return int(any(row.verdict == "ABOVE" for _, row in rows))


def missing_package(area: str) -> str:
    """Return the package that is not installed and that *area* needs, if there is one.

    :raises ModuleNotFoundError: a part of this repository is missing.
    """
    try:
        import_module(f"benchmarks.{area}")
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "benchmarks", "syncagent"):
            raise
        return name
    return ""


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
