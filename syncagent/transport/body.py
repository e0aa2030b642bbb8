"""A response as http.client and urllib3 read it, adapted to fast streams and cancels.

Guarantees:

- No byte is delivered after a cancel, even if it had left the socket before.
- A read of a :class:`ChunkReader` blocks only if nothing has arrived, and takes all
  that has.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

from urllib3.response import HTTPResponse

from ..cancel import CancelToken
from .failures import find_handler_error
from .sockets import ReadableSocket
from .user_code import UserCodeError

# The head of a chunk that is not the last one; and the beginning of any head.
_HEAD: Final = re.compile(rb"0{0,7}([1-9a-fA-F][0-9a-fA-F]{0,7})\r\n")
_PART_OF_HEAD: Final = re.compile(rb"[0-9a-fA-F]{0,8}\r?")

_MAX_LINE: Final = 65536

_Pieces = Generator[bytes, None, None]


class Response(HTTPResponse):
    """A response of urllib3 that delivers nothing after a cancel.

    When a cancel comes, bytes may have left the socket already, and wait here,
    compressed or not.
    """

    _token: CancelToken
    _cancelled: object
    _is_session: bool

    @classmethod
    def adopt(cls, response: Any, token: CancelToken, *, is_session: bool) -> None:
        """Turn *response* into one of these; urllib3 has no setting for the class.

        :param is_session: true if its reader is a user of :mod:`requests`, who knows no
            :class:`~.user_code.UserCodeError`.
        """
        response.__class__ = cls
        response._token = token
        response._cancelled = token.flag()
        response._is_session = is_session

    def release_conn(self) -> None:
        """Return the connection to its pool, once."""
        # Let go of it first: a signal handler may raise right after it was put there.
        # Put twice it would serve two threads at a time; lost, it is just closed.
        connection, self._connection = self._connection, None
        if self._pool and connection:
            self._pool._put_conn(connection)

    def read(self, *args: Any, **kwargs: Any) -> bytes:
        with self._checked():
            return super().read(*args, **kwargs)

    def read1(self, *args: Any, **kwargs: Any) -> bytes:
        with self._checked():
            return super().read1(*args, **kwargs)

    def read_chunked(self, *args: Any, **kwargs: Any) -> _Pieces:
        pieces = super().read_chunked(*args, **kwargs)
        while True:
            with self._checked():
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except (Exception, UserCodeError) as error:
            raised = find_handler_error(error, None) if self._is_session else None
            if raised is not None:
                raise raised from None
            raise
        if self._cancelled:
            try:
                self._token.checkpoint()
            except BaseException:
                self.close()
                raise


class Body(http.client.HTTPResponse):
    """A response that is read under a token, and is careful about what it is sent."""

    fp: Any = None  # also if a signal handler raises before it is made

    def __init__(self, source: ReadableSocket, *args: Any, **kwargs: Any) -> None:
        super().__init__(source, *args, **kwargs)  # type: ignore[arg-type]
        self.reader = source.reader

    def _read_status(self) -> tuple[str, int, str]:
        # Of the interim responses http.client skips 100 only. Any other would pass for
        # the response, and the response for that of the next call.
        while True:
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if status in (100, 101) or not 100 <= status < 200:
                return version, status, reason
            while self.fp.readline(_MAX_LINE).strip():
                pass

    def begin(self) -> None:
        super().begin()
        # http.client wants the very word "chunked"; other clients accept more forms.
        codings = self.headers.get("transfer-encoding", "").lower().split(",")
        named = [coding.strip() for coding in codings if coding.strip() != "identity"]
        if named not in ([], [""], ["chunked"]):
            raise http.client.UnknownTransferEncoding(", ".join(named))
        if named == ["chunked"] and not self.chunked:
            self.chunked, self.chunk_left, self.length = True, None, None
            self.will_close = self._check_close()  # type: ignore[attr-defined]

    def flush(self) -> None:
        """Do nothing: the garbage collector may have closed the file below by now."""

    def read_ahead(self) -> bytes:
        """Take the bytes that came with the headers; never waits."""
        self.reader.is_patient = False
        try:
            ahead: bytes = self.fp.peek()
        finally:
            self.reader.is_patient = True
        return self.fp.read(len(ahead)) if ahead else b""


class ChunkReader:
    """The pieces of a chunked body, straight from the socket.

    Models send a chunk per token. Through urllib3 and http.client each of them takes a
    dozen calls, more than everything else together. Whatever is not a plain chunk, such
    as the last one, is left to http.client, with all that follows it.

    :param body: a chunked response of which only the head was read.
    """

    def __init__(self, body: Body) -> None:
        self._body = body
        self._receive = body.reader.receive
        #: Bytes that have arrived and were not looked at.
        self._ahead = body.read_ahead()
        #: How much of the current chunk and its line end has not arrived, in bytes.
        self._missing = 0

    def read(self) -> bytes | None:
        """Return the next piece; ``None`` if http.client has to read on.

        Cancellation: ends at once.
        """
        data, missing = self._ahead, self._missing
        while True:
            if not data:
                data = self._receive()
                if not data:  # the connection has ended in the middle
                    break
            pieces = [data[: missing - 2]] if missing > 2 else []
            at = missing
            while at < len(data):
                head = _HEAD.match(data, at)
                if head is None:
                    break
                begin = head.end()
                at = begin + int(head[1], 16) + 2
                pieces.append(data[begin : at - 2])
            if at >= len(data):
                data, missing = b"", at - len(data)
            else:
                data, missing = data[at:], 0
                if not pieces:
                    more = _PART_OF_HEAD.fullmatch(data) and self._receive()
                    if not more:
                        break
                    data += more
                    continue
            self._ahead, self._missing = data, missing
            piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if piece:
                return piece
        # Put http.client where we are, and give it the bytes back that it has to read.
        self._body.reader.returned = data
        if missing:
            self._body.chunk_left = max(missing - 2, 0)
        return None
