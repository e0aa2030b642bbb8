"""``syncagent chat``: a conversation in a terminal.

``session.py`` decides what to do with the user's input and knows no terminal;
``conversations.py`` runs the agent, or the chat function, on threads of its own. Two
screens implement ``screen.py``: ``rich_screen.py`` draws with prompt_toolkit,
``line_screen.py`` reads and writes lines.
"""

from .command import SUMMARY, add_arguments, run

__all__ = ["SUMMARY", "add_arguments", "run"]
