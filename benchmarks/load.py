"""Put a load on a store, and print what came of it.

::

    python -m benchmarks.load [--runs 2000] [--live 200] [--workers 4] [--sqlite]

Workers are killed and ended, runs are cancelled and answered by other processes, and
PostgreSQL is restarted meanwhile. It exits with 1 if anything was wrong, and says what.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support import postgres
from support.load import Plan, load_postgres, load_sqlite


def main() -> int:
    options = arguments()
    logging.basicConfig(level=logging.ERROR)  # a restart is no surprise here
    if postgres.MISSING and not options.sqlite:
        print(f"{postgres.MISSING}; --sqlite needs no server", file=sys.stderr)
        return 2
    plan = Plan(runs=options.runs, live=options.live, workers=options.workers)
    report = (load_sqlite if options.sqlite else load_postgres)(plan)
    print(report.table)
    for each in report.wrong:
        print(f"\nwrong: {each}")
    return int(bool(report.wrong))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load")
    for name in ("runs", "live", "workers"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Plan, name))
    parser.add_argument("--sqlite", action="store_true", help="instead of PostgreSQL")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
