"""A body read many chunks at a time is the body read one at a time."""

import http.client
import random
import socket
import threading

import pytest

from syncagent import CancelToken
from syncagent.transport.body import Body, ChunkReader
from syncagent.transport.sockets import ReadableSocket

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(randomly, parts):
    """Frame *parts* in the ways in which it may be done."""
    framed = bytearray(HEAD)
    for part in parts:
        size = randomly.choice(["%x", "%X", "0%x", "%x;ext=1", "000000%x"]) % len(part)
        framed += size.encode() + b"\r\n" + part + b"\r\n"
    framed += randomly.choice(
        [b"0\r\n\r\n", b"0\r\nTrailer: x\r\n\r\n", b"000\r\n\r\n"]
    )
    return bytes(framed)


def send_in_pieces(sock, data, randomly):
    """Send *data* cut anywhere, and close."""
    with sock:
        at = 0
        while at < len(data):
            size = randomly.choice([1, 2, 7, 100, 5000, 70000])
            sock.sendall(data[at : at + size])
            at += size


def read(make, data, seed, sizes):
    """Return what is read, or the kind of error, from *data* sent in pieces."""
    here, there = socket.socketpair()
    sender = threading.Thread(
        target=send_in_pieces, args=(there, data, random.Random(seed))
    )
    sender.start()
    with here:
        response = make(here)
        response.begin()
        read, randomly = bytearray(), random.Random(seed)
        try:
            while piece := response.read1(randomly.choice(sizes)):
                read += piece
            ended = response.isclosed()
        except http.client.HTTPException as error:
            ended = type(error)
        response.close()
        here.shutdown(socket.SHUT_RDWR)
    sender.join()
    return bytes(read), ended


class Ours(Body):
    """A body whose every piece is read in the fast way, as long as that is possible."""

    chunks = None

    def __init__(self, sock):
        super().__init__(ReadableSocket(sock, CancelToken(), None))

    def begin(self):
        super().begin()
        self.chunks = ChunkReader(self)

    def read1(self, size):
        piece = self.chunks and self.chunks.read()
        if piece is None:
            self.chunks = None
            piece = super().read1(size)
        return piece


@pytest.mark.parametrize("seed", range(60))
def test_it_reads_what_http_client_reads(seed):
    """Whatever the chunks, however they are cut, wherever the stream ends."""
    randomly = random.Random(seed)
    parts = [
        randomly.randbytes(randomly.choice([1, 10, 200, 3000]))
        for _ in range(randomly.randrange(60))
    ]
    data = chunked(randomly, parts)
    if seed % 3 == 0:
        data = data[: randomly.randrange(len(HEAD), len(data))]
    sizes = randomly.choice([[65536], [1, 100, 65536], [7]])
    expected = read(http.client.HTTPResponse, data, seed, sizes)
    if seed % 3:
        assert expected == (b"".join(parts), True)
    assert read(Ours, data, seed, sizes) == expected


def test_many_chunks_are_one_read():
    """What has been received is taken at once, and nothing is waited for."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(HEAD + b"5\r\nhello\r\n" * 100)
        body = Ours(here)
        body.begin()
        assert body.read1(65536) == b"hello" * 100
        there.sendall(b"0\r\n\r\n")
        assert body.read1(65536) == b""
        body.close()


@pytest.mark.parametrize(
    "size", [b"-5", b"0x5", b" 5", b"5 ", b"fffffffffff", b"", b"zz"]
)
def test_odd_chunk_sizes_are_left_to_http_client(size):
    """The short cut takes plain numbers only."""
    data = HEAD + b"5\r\nhello\r\n" * 3 + size + b"\r\nhello\r\n0\r\n\r\n"
    expected = read(http.client.HTTPResponse, data, 1, [65536])
    assert read(Ours, data, 1, [65536]) == expected


def test_the_end_is_left_to_http_client():
    """So the connection is known to be free for the next request."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(HEAD + b"5\r\nhello\r\n" * 9 + b"0\r\n\r\n")
        body = Ours(here)
        body.begin()
        assert body.read1(12) == b"hello" * 9
        assert body.read1(12) == b""
        assert body.isclosed()
        body.close()


def test_every_cut():
    """In two parts, and cut off after one, at every byte: as http.client has it."""
    data = HEAD + b"5\r\nhello\r\n" + b"00A\r\n0123456789\r\n" + b"0\r\n\r\n"
    for at in range(len(HEAD), len(data) + 1):
        for rest in (data[at:], b""):
            expected = read_in_two(http.client.HTTPResponse, data[:at], rest)
            assert read_in_two(Ours, data[:at], rest) == expected, (at, rest)


def read_in_two(make, first, second):
    """Return what is read of a body that comes in two parts; None if it is cut off."""
    here, there = socket.socketpair()

    def send_and_end():
        there.sendall(second)
        there.shutdown(socket.SHUT_WR)

    with here, there:
        there.sendall(first)
        response = make(here)
        response.begin()
        later = threading.Thread(target=send_and_end)
        later.start()
        try:
            return b"".join(iter(lambda: response.read1(65536), b""))
        except http.client.IncompleteRead:
            return None
        finally:
            later.join()
            response.close()


def test_a_huge_size_is_only_a_number():
    """No memory is taken for bytes that have not come."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(HEAD + b"FFFFFFFF\r\nhello")
        body = Ours(here)
        body.begin()
        assert body.read1(9) == b"hello"
        there.sendall(b"again")
        assert body.read1(9) == b"again"
        body.close()
