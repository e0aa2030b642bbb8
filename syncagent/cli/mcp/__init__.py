"""``syncagent mcp``: list, call and check MCP servers, and be one.

``options.py`` has the arguments that name servers, also for ``chat`` and ``run``;
``opening.py`` asks before a server of a file is used for the first time (``trust.py``)
and starts them; each action has a module of its own.
"""

from .command import SUMMARY, add_arguments, run

__all__ = ["SUMMARY", "add_arguments", "run"]
