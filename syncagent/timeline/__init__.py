"""Timelines of recorded runs: an HTML page, or text for a terminal.

``reading.py`` reads the lines of a recording, ``tracing.py`` follows each run through
them, ``building.py`` arranges the rows, ``page.py`` and ``text.py`` draw them. They
share ``drawing.py`` (colours, axis, facts) and ``formatting.py`` (values as text)::

    from syncagent.timeline import read_timeline, render_html

    page = render_html(read_timeline("run.jsonl"))
"""

from __future__ import annotations

from .building import read_timeline
from .page import render_html
from .spans import Detail, Mark, Row, Segment, Summary, Timeline
from .text import render_text

__all__ = [
    "Detail",
    "Mark",
    "Row",
    "Segment",
    "Summary",
    "Timeline",
    "read_timeline",
    "render_html",
    "render_text",
]
