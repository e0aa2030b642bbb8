"""The id of the run that the current thread works for, as a context variable."""

from __future__ import annotations

from contextvars import ContextVar

__all__ = ["NO_RUN", "run_id"]

#: What log records show outside of a run.
NO_RUN = "-"

#: Set by the loop for the length of a run, and read by :mod:`syncagent.logs` on the
#: thread that logs. Whoever moves work of a run to another thread copies the context.
run_id: ContextVar[str] = ContextVar("syncagent_run_id", default=NO_RUN)
