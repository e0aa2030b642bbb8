"""Files that are cut, foreign, new, empty or huge."""

import json
import random
import signal
import subprocess

import pytest
from support.processes import script_command, script_environment
from support.recordings import LONG, looking_agent, rows_of

from syncagent import CancelToken
from syncagent.exceptions import Cancelled, RecordingInvalid
from syncagent.timeline import read_timeline, render_html, render_text

HEADER = (
    b'{"syncagent":"recording","version":1,"started":"2026-01-01T00:00:00+00:00"}\n'
)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\x00\x89PNG\xff\xfe" * 50, "not a recording"),
        (b"hello\n", "not a recording"),
        (b'{"syncagent": 7}\n', "not a recording"),
        (b'{"syncagent":"state","version":1,"started":""}\n', "not a recording"),
        (b"[]\n[]\n", "not a recording"),
        (b'{"syncagent":"recording","version":99,"started":"","sdk":"9"}\n', "newer"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path, content, words):
    """The error says what is wrong, and where recordings come from."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(content)
    with pytest.raises(RecordingInvalid, match=words):
        read_timeline(path)


def test_what_cannot_be_opened_is_refused(tmp_path):
    """A missing file and a folder are errors with a reason."""
    for path in (tmp_path / "missing.jsonl", tmp_path):
        with pytest.raises(RecordingInvalid, match="cannot be read"):
            read_timeline(path)


def test_every_cut_gives_a_picture(tmp_path):
    """Wherever a recording ends, even in the middle of a letter, it can be drawn."""
    whole, part = tmp_path / "whole.jsonl", tmp_path / "part.jsonl"
    looking_agent().run("Grüße.", record=whole)
    content = whole.read_bytes()
    first = content.index(b"\n") + 1
    for size in range(first, len(content), 37):
        part.write_bytes(content[:size])
        timeline = read_timeline(part)
        assert render_html(timeline).endswith("</html>\n")
        assert render_text(timeline)
        assert timeline.notes


def test_a_killed_process_leaves_what_it_did(tmp_path):
    """The last that is known is a tool that is still running."""
    path = tmp_path / "run.jsonl"
    script = script_command("timeline/killed_script", str(path))
    done = subprocess.run(
        script, timeout=LONG, env=script_environment(), capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    timeline = read_timeline(path)
    assert timeline.summary.stop_reason == "running"
    (tool,) = rows_of(path, "tool")
    assert (tool.title, tool.is_open) == ("die", True)
    assert "still running" in render_text(timeline)
    assert "still running" in render_html(timeline)


def test_lines_that_make_no_sense_are_counted(tmp_path):
    """One bad line costs that line."""
    path = tmp_path / "run.jsonl"
    looking_agent().run("Look.", record=path)
    first, *rest = path.read_bytes().splitlines(keepends=True)
    odd = [
        b"nonsense\n",
        b'{"t":"late"}\n',
        b'{"t":0.1,"run":"x","event":{"type":"of the future","more":1}}\n',
        b'{"t":1e999,"run":"x"}\n',
        b'{"t":0.1,"run":"y","begin":{"model":"m","prompt":[1]}}\n',
        b"\n",
    ]
    path.write_bytes(b"".join([first, *odd, *rest]))
    timeline = read_timeline(path)
    assert any("could not be read" in note for note in timeline.notes)
    assert "All is done." in render_html(timeline)
    render_text(timeline)


def test_a_recording_with_nothing_in_it_says_so(tmp_path):
    """A process that was killed at once has written its first line only."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(HEADER)
    timeline = read_timeline(path)
    assert timeline.rows == ()
    assert "before a run starts" in render_text(timeline)
    assert "before a run starts" in render_html(timeline)


def many_lines(count):
    yield HEADER
    yield b'{"t":0,"run":"r","thread":"t","begin":{"model":"m"}}\n'
    yield b'{"t":0,"run":"r","thread":"t","phase":"model"}\n'
    for number in range(count):
        event = {"type": "text_delta", "text": f"word {number} "}
        line = {"t": number / 1000, "run": "r", "thread": "t", "event": event}
        yield json.dumps(line).encode() + b"\n"


@pytest.mark.slow
def test_a_huge_recording_is_read_and_its_texts_are_cut(tmp_path):
    """A hundred thousand events are one row, and a page of a sensible size."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(many_lines(100_000)))
    timeline = read_timeline(path)
    assert len(timeline.rows) == 2
    assert len(render_html(timeline)) < 100_000
    assert render_text(timeline)


def test_reading_can_be_cancelled(tmp_path):
    """Ctrl+C ends the reading of a huge file."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(many_lines(10_000)))
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        read_timeline(path, token=token)


def spoil(value, chance):
    """Return *value* with something else in some of its places."""
    if chance.random() < 0.08:
        odd = [None, "", 7, -1, 1e300, True, [], {}, "\0", ["a"], {"type": "text"}]
        return chance.choice(odd)
    if isinstance(value, dict):
        return {key: spoil(each, chance) for key, each in value.items()}
    return [spoil(each, chance) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(60))
def test_a_spoiled_recording_is_drawn(tmp_path, seed):
    """Whatever stands in the lines of a file, there is a picture of it."""
    path, chance = tmp_path / "run.jsonl", random.Random(seed)
    looking_agent(parallel_tools=2).run("Look.", record=path)
    first, *lines = path.read_text().splitlines()
    spoiled = [json.dumps(spoil(json.loads(line), chance)) for line in lines]
    path.write_text("\n".join([first, *spoiled]))
    timeline = read_timeline(path)
    render_html(timeline)
    render_text(timeline, width=chance.choice([1, 60, 200]))


def test_too_many_rows_are_counted_and_left_out(tmp_path):
    """A browser opens the page of a run with thousands of calls."""
    path = tmp_path / "run.jsonl"
    event = {"type": "tool_started", "name": "look", "arguments": {}}
    lines = (
        json.dumps({"t": n, "run": "r", "event": {**event, "call_id": f"call_{n}"}})
        for n in range(6000)
    )
    path.write_bytes(HEADER + "\n".join(lines).encode() + b"\n")
    page = render_html(read_timeline(path))
    assert page.count("<details") == 5000
    assert "1,001 more rows" in page
