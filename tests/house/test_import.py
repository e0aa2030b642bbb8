"""The cost of ``import syncagent``."""

import subprocess
import sys

import pytest

HEAVY = (
    *("requests", "asyncio", "urllib3", "concurrent_log_handler", "sseclient"),
    *("syncagent.stores", "sqlite3", "psycopg"),
)


def loaded_by(statement):
    """Return the names of all modules loaded after *statement* in a new interpreter."""
    script = f"{statement}; import sys; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    return set(ended.stdout.split())


@pytest.mark.parametrize(
    "statement", ["import syncagent", "import syncagent, syncagent.logs"]
)
def test_import_is_light(statement):
    """Neither requests nor an event loop nor the log handler nor a store is loaded."""
    assert not loaded_by(statement).intersection(HEAVY)


def test_a_store_in_sqlite_needs_no_psycopg():
    """It is loaded with the first store in PostgreSQL."""
    statement = (
        "from syncagent.stores import RunStore; RunStore('sqlite:///runs.db').close()"
    )
    loaded = loaded_by(statement)
    assert "sqlite3" in loaded
    assert "psycopg" not in loaded


def test_import_starts_nothing():
    """No thread runs and no handler is set before the first use."""
    script = (
        "import syncagent, threading, logging\n"
        "assert threading.active_count() == 1\n"
        "assert not logging.getLogger('syncagent').handlers\n"
        "assert not logging.getLogger().handlers\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=20)


def test_logs_are_found_without_importing_them():
    """``syncagent.logs.configure`` works after ``import syncagent``."""
    script = "import syncagent; syncagent.logs.configure"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=20)
