"""The ``syncagent demo`` command."""

from .command import SUMMARY, run

__all__ = ["SUMMARY", "run"]
