"""A terminal to live in: ``syncagent chat``.

``session.py`` decides what comes of what is typed, and knows no terminal; ``talk.py``
has the work that goes on; ``plain_screen.py``, ``rich_screen.py`` and
``line_screen.py`` are three terminals behind the few words of ``screen.py``.
"""

from .command import SUMMARY, add_arguments, run

__all__ = ["SUMMARY", "add_arguments", "run"]
