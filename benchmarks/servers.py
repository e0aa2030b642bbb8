"""The servers of the tests, in a process of their own, for measuring against them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(_TESTS / "transport"), str(_TESTS)]

from certificates import Certificates  # noqa: E402
from harness import Server  # noqa: E402


@contextmanager
def servers() -> Iterator[tuple[Any, str]]:
    """Run a server with and without TLS; give it and the path of its authority."""
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(Path(folder))
        server = Server(*certificates.server, certificates.authority)
        try:
            yield server, certificates.authority
        finally:
            server.close()
