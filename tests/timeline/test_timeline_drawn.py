"""The two pictures, and the command that draws them."""

import html.parser
import os
import re
import subprocess
import sys

import pytest
from support.recorded_runs import (
    MARKUP,
    film_cancelled,
    film_hostile,
    film_normal,
    film_sub_agent,
)
from support.recordings import LONG

from syncagent.cli.main import main
from syncagent.timeline import read_timeline, render_html, render_text


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


class Elements(html.parser.HTMLParser):
    """What a page is made of."""

    VOID = frozenset(("meta", "br"))

    def __init__(self, page):
        super().__init__()
        self.names, self.open, self.attributes = [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize(
    "film", [film_normal, film_hostile, film_cancelled, film_sub_agent]
)
def test_a_page_loads_and_runs_nothing(path, film):
    """No script, no picture, no style of an element, no address; and all is closed."""
    film(path)
    page = render_html(read_timeline(path))
    elements = Elements(page)
    assert not {"script", "img", "link", "iframe", "a"} & set(elements.names)
    assert not {"style", "src", "href"} & set(elements.attributes)
    assert not [name for name in elements.attributes if name.startswith("on")]
    assert "default-src 'none'" in page
    assert "unsafe" not in page


def test_hostile_words_are_words(path):
    """They are on the page and in the terminal, and nobody obeys them."""
    film_hostile(path)
    timeline = read_timeline(path)
    page = render_html(timeline)
    assert "&lt;/script&gt;&lt;script&gt;window.hacked" in page
    for drawn in (page, render_text(timeline)):
        assert "\x1b" not in drawn
        assert "\x07" not in drawn
        assert "\u202e" not in drawn
    assert "<script" not in page
    assert MARKUP[:20] in render_text(timeline)


@pytest.mark.parametrize("width", [1, 40, 79, 120, 400])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_text_fits_the_width(path, width, ascii_only):
    """No line of the picture is longer than the terminal is wide."""
    film_cancelled(path)
    timeline = read_timeline(path)
    text = render_text(timeline, width=width, ascii_only=ascii_only)
    picture = text.split("\n\n")[1]
    assert max(map(len, picture.splitlines())) <= max(width, 40)
    assert not ascii_only or text.isascii()


def test_a_title_in_wide_letters_is_cut_where_the_column_ends(path):
    """Letters that take two columns count twice."""
    from syncagent.timeline.text import _Drawing, _size

    film_normal(path)
    drawing = _Drawing(read_timeline(path), 80, False, False)
    assert _size(drawing._pad("漢字" * 30, 20)) == 20
    assert drawing._pad("abc", 5) == "abc  "


def test_colours_only_if_wanted(path):
    """Plain text has no escape sequences; with colours it says the same."""
    film_cancelled(path)
    timeline = read_timeline(path)
    plain = render_text(timeline)
    painted = render_text(timeline, colour=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain


def test_the_command_writes_a_page(path, tmp_path, capsys):
    """With -o the page is written, and nothing is drawn, unless that is wanted."""
    film_normal(path)
    page = tmp_path / "run.html"
    assert main(["timeline", str(path), "-o", str(page)]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert str(page) in said.err
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert main(["timeline", str(path), "-o", str(page), "--text"]) == 0
    assert "waiting for approval" in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "cp1252"])
def test_the_command_draws_what_the_terminal_can_show(path, encoding):
    """Characters that it has no code for are not used; and no colours in a pipe."""
    film_cancelled(path)
    done = subprocess.run(
        [sys.executable, "-m", "syncagent", "timeline", str(path), "--width", "90"],
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        capture_output=True,
        timeout=LONG,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode(encoding)
    assert "\x1b" not in text
    assert ("█" in text) == (encoding == "utf-8")
    assert "cancelled" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.jsonl"], "cannot be read"),
        (["run.jsonl", "-o", "missing/run.html"], "cannot write"),
        (["run.jsonl", "-o", "run.jsonl"], "would overwrite the recording"),
    ],
)
def test_mistakes_are_one_line(path, monkeypatch, capsys, arguments, words):
    """What is wrong, why, and exit code 1; the recording is as it was."""
    monkeypatch.chdir(path.parent)
    film_normal(path)
    before = path.read_bytes()
    assert main(["timeline", *arguments]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert path.read_bytes() == before


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colours_on_a_terminal(path, monkeypatch, no_color):
    """A terminal gets colours, unless NO_COLOR says no."""
    film_cancelled(path)
    monkeypatch.setenv("NO_COLOR", no_color)
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "syncagent", "timeline", str(path)],
            stdout=theirs,
            timeout=LONG,
        )
        said = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0
    assert ("\x1b[" in said) == (no_color == "")
