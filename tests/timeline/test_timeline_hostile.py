"""Recordings that another person made, with whatever they wrote into them."""

import itertools
import json
import os
import random
import stat

import pytest
from support.recordings import looking_agent

from syncagent.cli.main import main
from syncagent.timeline import read_timeline, render_html, render_text

FORGED = "\x1b[2J\x1b]0;title\x07\x9b\u202e\u2028\u200b\r"
HEADER = {"syncagent": "recording", "version": 1, "started": "2026-01-01T00:00:00Z"}
RESULT = {
    "messages": [],
    "stop_reason": "end_turn",
    "text": FORGED,
    "turns": 1,
    "run_id": FORGED,
}
#: A run with text of a stranger in every field.
LINES = [
    {"t": 0.0, "run": FORGED, "thread": FORGED, "begin": {"model": FORGED}},
    {
        "t": 0.1,
        "run": FORGED,
        "begin": {
            "model": FORGED,
            "prompt": {"content": [{"type": "text", "text": FORGED}]},
        },
    },
    {"t": 0.2, "run": FORGED, "thread": "t", "phase": "model"},
    {"t": 0.3, "run": FORGED, "thread": "t", "phase": FORGED},
    {
        "t": 0.4,
        "run": FORGED,
        "thread": FORGED,
        "tool": {"call_id": FORGED, "name": FORGED, "moment": "begin"},
    },
    {
        "t": 0.5,
        "run": FORGED,
        "event": {
            "type": "tool_started",
            "call_id": FORGED,
            "name": FORGED,
            "arguments": {FORGED: FORGED},
        },
    },
    {"t": 0.55, "run": "other", "begin": {"model": FORGED, "parent": FORGED}},
    {
        "t": 0.6,
        "run": FORGED,
        "cancel": {"reason": FORGED, "origin": FORGED, "phase": FORGED},
    },
    {"t": 0.7, "run": FORGED, "error": {"type": FORGED, "message": FORGED}},
    {"t": 0.8, "run": FORGED, "lost": FORGED},
    {"t": 0.9, "run": FORGED, "event": {"type": "run_finished", "result": RESULT}},
]
#: As JSON, because Python would not write some of them.
NUMBERS = [
    *("-1e308", "1e308", "1e999", "-1e999", "NaN", "Infinity", "1e-320", "-0.0"),
    *("9" * 400, "-5", "1e18", "9007199254740993", "null", '"1"', "[[]]"),
]


def write(path, lines, header=HEADER):
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join([json.dumps(header), *texts, ""]))
    return path


def draw(path):
    """Draw a recording in every way, and return the texts."""
    timeline = read_timeline(path)
    assert render_html(timeline).endswith("</html>\n")
    ways = itertools.product((20, 80, 200), (True, False))
    return [render_text(timeline, width=w, ascii_only=a) for w, a in ways]


@pytest.mark.parametrize("size", range(1, len(LINES) + 1))
def test_nothing_of_a_recording_controls_the_terminal(tmp_path, size):
    """L4: run ids, stop reasons, threads, errors: all of it is shown as text."""
    for text in draw(write(tmp_path / "run.jsonl", LINES[:size])):
        assert all(line.isprintable() for line in text.split("\n"))


def test_colours_are_the_only_escapes(tmp_path):
    """L4: the terminal obeys what the drawing says, and nothing else."""
    timeline = read_timeline(write(tmp_path / "run.jsonl", LINES))
    text = render_text(timeline, colour=True)
    for code in ("0", "1", "2", "1;31", "1;32", "31", "32", "33", "34", "36"):
        text = text.replace(f"\x1b[{code}m", "")
    assert all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("number", NUMBERS)
def test_no_number_is_a_traceback(tmp_path, number):
    """L4: a time that makes no sense costs its line."""
    lines = [json.dumps(line) for line in LINES]
    for place, line in enumerate(lines):
        time = json.dumps(LINES[place]["t"])
        changed = line.replace(f'"t": {time}', f'"t": {number}')
        assert changed != line
        draw(write(tmp_path / "run.jsonl", [*lines[:place], changed, *lines[place:]]))
        draw(write(tmp_path / "run.jsonl", [changed]))


@pytest.mark.parametrize(
    "started", ["0001-01-01", "9999-12-31T23:59:59+00:00", "", "x"]
)
def test_no_date_is_a_traceback(tmp_path, started):
    """L4: nor one that no clock has shown, in the first header or a later one."""
    strange = HEADER | {"started": started}
    draw(write(tmp_path / "run.jsonl", [*LINES, strange, *LINES]))
    draw(write(tmp_path / "run.jsonl", [*LINES, HEADER, *LINES], header=strange))


def test_deep_values_cost_their_line(tmp_path):
    """L4: a value can be deeper than any stack."""
    deep = "[" * 100_000 + "]" * 100_000
    lines = [
        '{"t": 1, "run": "a", "event": ' + deep + "}",
        '{"t": 1, "run": "a", "begin": {"model": "m", "prompt": ' + deep + "}}",
        '{"t": 1, "run": "a", "event": {"type": "tool_started", "call_id": "c", '
        '"name": "n", "arguments": {"x": ' + deep + "}}}",
    ]
    draw(write(tmp_path / "run.jsonl", [*LINES, *lines]))


VALUES = [None, -1, 1e308, "", FORGED, [], {}, True, [[None]], {"type": "text"}]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_a_recording_says(tmp_path, seed):
    """L4: any value anywhere in a real recording, and there is a drawing."""
    path = tmp_path / "run.jsonl"
    looking_agent().run("Look.", record=path)
    header, *lines = map(json.loads, path.read_text().splitlines())
    dice = random.Random(seed)
    for _ in range(10):
        changed = json.loads(json.dumps(lines))
        for _ in range(3):
            place = dice.choice(changed)
            while True:
                key = dice.choice(
                    list(place) if isinstance(place, dict) else range(len(place))
                )
                if not isinstance(place[key], (dict, list)) or not place[key]:
                    break
                if dice.random() < 0.3:
                    break
                place = place[key]
            place[key] = dice.choice(VALUES)
        for text in draw(write(path, changed, header)):
            assert all(line.isprintable() for line in text.split("\n"))


def test_a_page_is_for_its_owner_only(tmp_path, capsys):
    """L16: it holds what the recording holds, whose mode is 0600."""
    recording, page = tmp_path / "run.jsonl", tmp_path / "run.html"
    looking_agent().run("Look.", record=recording)
    before = os.umask(0o022)
    try:
        assert main(["timeline", str(recording), "-o", str(page)]) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(recording.stat().st_mode) == 0o600
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    page.chmod(0o644)  # to share it is the owner's decision, and stays
    page.write_text("x" * 1_000_000)
    assert main(["timeline", str(recording), "-o", str(page)]) == 0
    assert page.read_text().endswith("</html>\n")
    assert stat.S_IMODE(page.stat().st_mode) == 0o644
    capsys.readouterr()
