"""The run id for handlers and formats of the user's own."""

from __future__ import annotations

import logging

from ._record import run_id_of


class RunIdFilter(logging.Filter):
    """Give every record a ``run_id``, so that a format may say ``%(run_id)s``.

    Only handlers of your own need it; :func:`~syncagent.logs.configure` has it built
    in. Outside of a run the id is ``-``.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Set ``record.run_id`` unless the caller gave one; let every record pass."""
        record.run_id = run_id_of(record)
        return True
