"""Draw a timeline as a page: one HTML file, which loads nothing and runs nothing.

There is no script in it, and its own content security policy forbids any: the output of
a tool or a model is text, whatever it looks like. Bars are drawn with attributes and
not with styles, as the policy allows only the one style sheet.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from typing import Final

from ..__version__ import __version__
from . import formatting
from .drawing import LEGEND, clean, facts, is_fine, look_of, ticks
from .spans import Row, Timeline
from .style import STYLE

__all__ = ["render_html"]

#: The smallest width of a bar, in percent.
_MIN_BAR: Final = 0.3
#: Number of characters of details on a page; the rest is cut to a short form.
_MAX_DETAILS: Final = 4_000_000
_SHORT_DETAIL: Final = 300
#: Number of rows: a browser could show more, but who would read them?
_MAX_ROWS: Final = 5000
_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; "
    "form-action 'none'"
)
_PATTERNS: Final = """\
<svg width="0" height="0" aria-hidden="true"><defs>
<pattern id="back-off" width="6" height="6" patternUnits="userSpaceOnUse" \
patternTransform="rotate(45)"><rect class="retry-ground" width="6" height="6"/>\
<line class="stripe" x1="0" y1="0" x2="0" y2="6" stroke-width="4"/></pattern>
<pattern id="late" width="5" height="5" patternUnits="userSpaceOnUse" \
patternTransform="rotate(45)"><rect class="late-ground" width="5" height="5"/>\
<line class="stripe" x1="0" y1="0" x2="0" y2="5" stroke-width="2"/></pattern>
</defs></svg>
"""


def render_html(timeline: Timeline) -> str:
    """Return *timeline* as a self-contained HTML page."""
    return "".join(_Page(timeline).parts())


class _Page:
    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._seconds = timeline.seconds or 1.0
        self._remaining = _MAX_DETAILS
        self._grid = "".join(
            f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="100%"/>'
            for x in (self._x(at) for at, _ in self._ticks)
        )
        self._cut = "".join(
            f'<line class="cut" x1="{x}" x2="{x}" y1="0" y2="100%"/>'
            for x in (self._x(cancel.at) for cancel in timeline.cancels)
        )

    @property
    def _ticks(self) -> list[tuple[float, str]]:
        return ticks(self._timeline.seconds, 6)

    def _x(self, at: float) -> str:
        return f"{min(max(100 * at / self._seconds, 0.0), 100.0):.3f}%"

    def parts(self) -> Iterator[str]:
        """Yield the page from top to bottom."""
        summary = self._timeline.summary
        title = f"run {summary.run_id[:8]}: {summary.stop_reason}"
        yield (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        )
        yield _PATTERNS
        yield from self._head()
        yield from self._legend()
        yield '<div class="chart">\n'
        yield from self._axis()
        rows = self._timeline.rows
        for row in rows[:_MAX_ROWS]:
            yield from self._row(row)
        yield "</div>\n"
        if len(rows) > _MAX_ROWS:
            omitted = len(rows) - _MAX_ROWS
            yield f'<p class="said note">{omitted:,} more rows are left out.</p>\n'
        yield from self._ends()
        yield (
            "<footer>Click a row for its details. Recorded "
            f"{_text(formatting.moment(summary.started))}, drawn by syncagent "
            f"{_text(__version__)}.</footer>\n"
            "</body>\n</html>\n"
        )

    def _head(self) -> Iterator[str]:
        summary = self._timeline.summary
        stop = summary.stop_reason
        look = "good" if is_fine(stop) else stop
        if not (look.replace("_", "").isalpha() and look.isascii()):
            look = ""  # a stop reason of a newer version, which is no class name
        yield (
            f"<header><h1>Run {_text(summary.run_id[:8])}</h1>"
            f'<span class="badge {look}">'
            f"{_text(stop.replace('_', ' '))}</span>"
            f'<span class="quiet">{_text(summary.model)}</span></header>\n'
            '<dl class="facts">'
        )
        for name, value in facts(self._timeline):
            yield f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>"
        yield "</dl>\n"
        if summary.cancellation:
            cancellation = _text(summary.cancellation)
            yield f'<p class="said cancelled">Cancelled {cancellation}.</p>\n'
        if summary.error:
            yield f'<p class="said error">{_text(summary.error)}</p>\n'
        for note in self._timeline.notes:
            yield f'<p class="said note">{_text(note)}</p>\n'
        for title, content in (("Prompt", summary.prompt), ("Response", summary.text)):
            if content:
                text = _text(formatting.cut(content, 600), keep_lines=True)
                yield f'<p class="said"><b class="quiet">{title}</b> {text}</p>\n'

    def _legend(self) -> Iterator[str]:
        rows = self._timeline.rows
        used = {look_of(row, part) for row in rows for part in row.segments}
        yield '<ul class="legend">'
        for look, meaning in LEGEND.items():
            if look in used:
                yield f"<li>{_swatch(look)}{_text(meaning)}</li>"
        if any(row.after_cancel for row in rows):
            yield f"<li>{_swatch('late')}after the cancel</li>"
        yield "</ul>\n"

    # -- the drawing ---------------------------------------------------------------

    def _axis(self) -> Iterator[str]:
        yield '<div class="axis"><span class="label"></span>'
        yield f'<svg height="{36 if self._cut else 22}" aria-hidden="true">{self._grid}'
        for at, name in self._ticks:
            share = at / self._seconds
            anchor = "end" if share > 0.97 else "middle" if share > 0.03 else "start"
            yield f'<text x="{self._x(at)}" y="15" text-anchor="{anchor}">{name}</text>'
        for cancel in self._timeline.cancels:
            anchor, shift = (
                ("end", -5) if cancel.at > self._seconds / 2 else ("start", 5)
            )
            yield (
                f'<text class="flag" x="{self._x(cancel.at)}" dx="{shift}" y="31" '
                f'text-anchor="{anchor}">cancel(), '
                f"{formatting.duration(cancel.at)}</text>"
            )
        yield f'{self._cut}</svg><span class="took"></span></div>\n'

    def _row(self, row: Row) -> Iterator[str]:
        took = formatting.duration(row.seconds)
        is_plain = row.outcome in ("", "done")
        if row.is_open:
            took += " <em>still running</em>"
        elif not is_plain and not (row.kind == "run" and is_fine(row.outcome)):
            took += f" <em>{_text(row.outcome.replace('_', ' '))}</em>"
        where = ""
        if row.is_elsewhere or row.in_process:  # not on the thread of its run
            place = "process" if row.in_process else "thread"
            where = f' <small class="where">{place}</small>'
        yield (
            f'<details class="{row.kind} d{min(row.depth, 6)}"><summary>'
            f'<span class="label" title="{_text(f"{row.title} {row.hint}")}">'
            f"{_text(row.title)}{where} <small>{_text(row.hint)}</small>"
            f'</span><svg height="24" aria-hidden="true">{self._grid}'
        )
        yield from self._bars(row)
        yield f'{self._cut}</svg><span class="took">{took}</span></summary>'
        yield '<div class="body">'
        yield from self._facts_of(row)
        for detail in row.details:
            text = detail.text
            if self._remaining <= 0:
                text = formatting.cut(text, _SHORT_DETAIL)
            self._remaining -= len(text)
            body = _text(text, keep_lines=True)
            yield f"<h3>{_text(detail.title)}</h3><pre>{body}</pre>"
        yield "</div></details>\n"

    def _bars(self, row: Row) -> Iterator[str]:
        y, height = ("10", "4") if row.kind == "run" else ("5", "14")
        share = 100 * row.seconds / self._seconds
        parts = row.segments
        if share < 2 * _MIN_BAR and parts:  # too narrow for more than its main part
            longest = max(parts, key=lambda part: part.seconds)
            yield self._bar(
                look_of(row, longest), row.begin, row.end, y, height, row.title
            )
        elif not parts:
            look = "none" if row.kind == "tool" else str(row.kind)
            yield self._bar(look, row.begin, row.end, y, height, row.title)
        else:
            for number, part in enumerate(parts):
                look = look_of(row, part)
                odd = " odd" if row.kind == "thread" and number % 2 else ""
                yield self._bar(look + odd, part.begin, part.end, y, height, part.name)
                if row.kind == "thread" and part.seconds > self._seconds / 5:
                    name = _text(formatting.cut_line(part.name, 20))
                    x = self._x(part.begin)
                    yield f'<text class="names" x="{x}" dx="6" y="16">{name}</text>'
        if row.after_cancel:
            begin = row.end - row.after_cancel
            yield self._bar("late", begin, row.end, y, height, "after the cancel")
        for mark in row.marks:
            yield (
                f'<circle cx="{self._x(mark.at)}" cy="12" r="2.5">'
                f"<title>{_text(mark.text)}</title></circle>"
            )

    def _bar(
        self, look: str, begin: float, end: float, y: str, height: str, name: str
    ) -> str:
        width = max(100 * (end - begin) / self._seconds, _MIN_BAR)
        x = min(max(100 * begin / self._seconds, 0.0), 100 - _MIN_BAR)
        return (
            f'<rect class="{look}" x="{x:.3f}%" width="{min(width, 100 - x):.3f}%" '
            f'y="{y}" height="{height}" rx="2"><title>{_text(name)}: '
            f"{formatting.duration(end - begin)}</title></rect>"
        )

    def _facts_of(self, row: Row) -> Iterator[str]:
        yield "<h3>When and where</h3><table>"
        yield f"<tr><th>start</th><td>{formatting.duration(row.begin)}</td></tr>"
        if row.thread:
            kind = "thread (waits for a process)" if row.in_process else "thread"
            yield f"<tr><th>{kind}</th><td>{_text(row.thread)}</td></tr>"
        if row.after_cancel is not None:
            late = formatting.duration(row.after_cancel)
            yield f"<tr><th>end, after the cancel</th><td>{late}</td></tr>"
        if len(row.segments) > 1:
            for part in row.segments:
                name, took = _text(part.name), formatting.duration(part.seconds)
                yield f"<tr><th>{name}</th><td>{took}</td></tr>"
        yield "</table>"

    def _ends(self) -> Iterator[str]:
        """Yield the time each part took to end after the cancel, to its own scale."""
        late = [row for row in self._timeline.rows if row.after_cancel is not None]
        longest = max((row.after_cancel or 0.0 for row in late), default=0.0)
        if not late:
            return
        yield "<h2>Time from the cancel to the end of each part</h2>\n"
        yield '<div class="ends">\n'
        for row in late:
            width = 100 * (row.after_cancel or 0.0) / (longest or 1.0)
            took = formatting.duration(row.after_cancel or 0.0)
            outcome = (
                f' <em class="calm">{_text(row.outcome)}</em>' if row.outcome else ""
            )
            yield (
                f'<div class="d{min(row.depth, 6)}"><span class="label">'
                f'{_text(row.title)}</span><svg height="20" aria-hidden="true">'
                f'<rect class="late" x="0" width="{max(width, _MIN_BAR):.2f}%" y="5" '
                f'height="10" rx="2"/></svg><span class="took">{took}{outcome}</span>'
                "</div>\n"
            )
        yield "</div>\n"


def _swatch(look: str) -> str:
    return (
        '<svg class="swatch" aria-hidden="true"><rect class="'
        f'{look}" width="100%" height="100%" rx="2"/></svg>'
    )


def _text(text: str, *, keep_lines: bool = False) -> str:
    """Return *text* escaped for any place on the page."""
    if keep_lines:
        lines = text.splitlines()
        return escape("\n".join(map(clean, lines)))
    return escape(clean(text))
