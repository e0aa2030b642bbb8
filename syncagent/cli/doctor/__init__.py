"""The ``syncagent doctor`` command."""

from .command import SUMMARY, add_arguments, run

__all__ = ["SUMMARY", "add_arguments", "run"]
