"""Write the log of a program to a file that rotates and hides credentials.

Shows text and JSON lines, the run id on each record, a traceback, what redaction does
to a key, and a value that only this program knows to be secret.

Run it: python examples/log_to_files.py
There is no model in it: runs log by themselves, below the name "syncagent".
"""

import logging
import tempfile
from pathlib import Path

from syncagent import logs

log = logging.getLogger("syncagent.example")


def work() -> None:
    """Log what a run might log, and some things that it had better not."""
    log.info("turn %d began", 1, extra={"run_id": "run-7f3a", "model": "small"})
    log.warning("sent Authorization: Bearer %s", "eyJhbGciOi.J9zd-12")
    log.info("connected as %s", "correct horse battery")
    try:
        raise ConnectionError("https://me:hunter2@example.com refused")
    except ConnectionError:
        log.exception("turn %d failed", 1)


def main() -> None:
    """Log the same twice, as text and as JSON, and print both files."""
    logs.hide("correct horse battery")
    with tempfile.TemporaryDirectory() as folder:
        for name, json in (("agent.log", False), ("agent.jsonl", True)):
            path = Path(folder, name)
            with logs.configure(path, json=json, max_bytes=1_000_000, backups=3):
                work()
            print(f"{name}:\n{path.read_text()}")


if __name__ == "__main__":
    main()
