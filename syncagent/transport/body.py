"""A response as http.client and urllib3 read it, adapted to fast streams and cancels.

Guarantees:

- No byte is delivered after a cancel, even if it had left the socket before.
- ``read1`` blocks only if nothing has arrived, and takes every complete chunk there is.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

from urllib3.response import HTTPResponse

from ..cancel import CancelToken
from .sockets import ReadableSocket
from .user_code import UserCodeError

# The end of one chunk and the head of the next, in the form that servers send.
_NEXT_CHUNK: Final = re.compile(rb"\r\n([0-9a-fA-F]{1,8})\r\n")

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
        except UserCodeError as carrier:
            if self._is_session:
                raise carrier.error from None
            raise
        if self._cancelled:
            try:
                self._token.checkpoint()
            except BaseException:
                self.close()
                raise


class Body(http.client.HTTPResponse):
    """A response whose ``read1`` takes all chunks that have arrived, not only one.

    Models send a chunk per token. Going through the layers above for each of them costs
    more than everything else together.
    """

    fp: Any = None  # also if a signal handler raises before it is made

    def __init__(self, source: ReadableSocket, *args: Any, **kwargs: Any) -> None:
        super().__init__(source, *args, **kwargs)  # type: ignore[arg-type]
        self._reader = source.reader

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

    def read1(self, n: int = -1) -> bytes:
        """Read what has arrived, at most *n* bytes; block only if nothing has."""
        data = super().read1(n)
        # Zero: at the end of a chunk, of which the line end has not been read yet.
        if not data or self.chunk_left != 0:
            return data
        self._reader.is_patient = False  # peek() must not wait for more
        try:
            ahead: bytes = self.fp.peek()
        finally:
            self._reader.is_patient = True
        chunks, taken, limit = [data], 0, n - len(data)
        while head := _NEXT_CHUNK.match(ahead, taken):
            begin, size = head.end(), int(head[1], 16)
            limit -= size
            # The last chunk, and an incomplete one, are left to http.client.
            if size == 0 or begin + size > len(ahead) or limit < 0:
                break
            taken = begin + size
            chunks.append(ahead[begin:taken])
        if taken:
            self.fp.read(taken)
        return b"".join(chunks)
