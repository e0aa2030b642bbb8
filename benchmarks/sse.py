"""What reading server-sent events costs, and how it grows."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.measure import Row, side_by_side
from syncagent.sse import EventDecoder

MEBIBYTE = 1024 * 1024
#: A larger event may cost so many times as much per byte, for the caches it leaves.
NOISE = 1.6


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    for size in (4, 16):
        yield one_line(size)
    for size in (4, 16):
        yield many_lines(size)
    for size in (256, 1024):
        yield byte_by_byte(size)


def seconds(chunks: list[bytes]) -> float:
    """Return what it takes to read a stream of one event."""
    decoder = EventDecoder(max_event_lines=10_000_000)
    begin = time.perf_counter()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    ended = time.perf_counter()
    assert len(events) == 1
    return ended - begin


def cut(stream: bytes, size: int) -> list[bytes]:
    return [stream[at : at + size] for at in range(0, len(stream), size)]


def growth(name: str, small: list[bytes], large: list[bytes], times: int) -> Row:
    """Compare the cost per byte of a large event with that of a small one."""
    value, floor = side_by_side(lambda: seconds(large), lambda: seconds(small), 5)
    return Row(
        name,
        "the same for a small one",
        value / times * 1e6,
        floor * 1e6,
        "us",
        limit=NOISE,
    )


def one_line(size: int) -> Row:
    """An event of one line, in chunks of 16 KiB."""

    def stream(mebibytes: int) -> list[bytes]:
        return cut(b"data: " + b"x" * mebibytes * MEBIBYTE + b"\n\n", 16384)

    name = f"event of {size} MiB, one line, per MiB"
    return growth(name, stream(1), stream(size), size)


def many_lines(size: int) -> Row:
    """An event of lines of 1 KiB each."""

    def stream(mebibytes: int) -> list[bytes]:
        return cut((b"data: " + b"x" * 1018 + b"\n") * 1024 * mebibytes + b"\n", 16384)

    name = f"event of {size} MiB, {size * 1024:,} lines, per MiB"
    return growth(name, stream(1), stream(size), size)


def byte_by_byte(kibibytes: int) -> Row:
    """An event that comes in chunks of one byte."""

    def stream(size: int) -> list[bytes]:
        return cut(b"data: " + b"x" * size * 1024 + b"\n\n", 1)

    name = f"event of {kibibytes} KiB, byte by byte, per 64 KiB"
    return growth(name, stream(64), stream(kibibytes), kibibytes // 64)
