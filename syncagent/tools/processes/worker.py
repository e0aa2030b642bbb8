"""The life of a worker process: take a call, make it, send back what came of it.

It imports little, so that it starts fast; and it takes one call after the other, so
that module globals, signal handlers and the environment live on from call to call. What
is restored before each: the working directory and ``sys.path`` of the caller. After
each, an alarm that is still set is taken back, and output is flushed.
"""

from __future__ import annotations

import importlib
import io
import os
import pickle
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Final

from .groups import mark_as_worker

__all__ = [
    "ANSWER",
    "ASK",
    "CALL",
    "Channel",
    "PROGRESS",
    "RAISED",
    "RETURNED",
    "TROUBLE",
    "UNPICKLABLE",
    "is_preparing",
    "main",
]

# What is said, by one letter each. To the worker: a call; the answer to a question.
CALL: Final = b"c"
ANSWER: Final = b"a"
# By the worker: how the call ended; that it could not be made; what the function says.
RETURNED: Final = b"r"
UNPICKLABLE: Final = b"u"
RAISED: Final = b"e"
TROUBLE: Final = b"t"
PROGRESS: Final = b"p"
ASK: Final = b"q"

_HEADER: Final = struct.Struct("!cQ")
#: Up to here it is cheaper to copy than to write twice, in bytes.
_SMALL: Final = 65536


class Channel:
    """Frames over a stream socket, which somebody else owns.

    :param number: its descriptor.
    """

    def __init__(self, number: int) -> None:
        self._number = number

    def send(self, kind: bytes, payload: bytes) -> None:
        """Send one frame.

        Cancellation: ends when the other side is killed.

        :raises OSError: nobody is there.
        """
        header = _HEADER.pack(kind, len(payload))
        parts = (header + payload,) if len(payload) < _SMALL else (header, payload)
        for part in parts:
            rest = memoryview(part)
            while rest:
                rest = rest[os.write(self._number, rest) :]

    def receive(self) -> tuple[bytes, bytearray]:
        """Block for the next frame.

        Cancellation: ends when the other side is killed.

        :raises EOFError: nobody is there any more.
        :raises OSError: nobody is there any more, too.
        """
        kind, size = _HEADER.unpack(self._read(_HEADER.size))
        return kind, self._read(size)

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        with memoryview(data) as view:
            got = 0
            while got < size:
                part = os.readv(self._number, [view[got:]])
                if part == 0:
                    raise EOFError("the other side is gone")
                got += part
        return data


class _Trouble(Exception):
    """The call could not be made; its text goes to the user as it is."""


def main(number: int) -> None:
    """Serve until the other side is gone. This is the whole life of the process.

    Cancellation: it is killed.

    :param number: the descriptor of the socket to serve.
    """
    mark_as_worker()
    os.set_inheritable(number, False)
    # A handler, as SIG_IGN would be inherited by every program that a function starts.
    signal.signal(signal.SIGINT, lambda *_: None)
    channel = Channel(number)
    while True:
        try:
            _, request = channel.receive()
            channel.send(*_answer(request, channel))
        except (EOFError, OSError):
            return


def _answer(request: bytearray, channel: Channel) -> tuple[bytes, bytes]:
    """Make one call and return what to say about it."""
    calls = _Calls(channel)
    try:
        name, call = _prepare_call(request, calls)
    except _Trouble as trouble:
        return TROUBLE, str(trouble).encode()
    try:
        result = call()
    except BaseException as error:  # also SystemExit: it is the caller's, not ours
        return RAISED, _pack_error(error)
    finally:
        calls.close()
        _tidy()
    try:
        return RETURNED, pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        text = (
            f"{name} returned a {type(result).__qualname__}, which cannot be sent from "
            f"its process ({error}); results of process tools must pickle: return "
            "plain data"
        )
        return UNPICKLABLE, text.encode()


def _tidy() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)  # it would hit the next call
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # closed, replaced, or full
            pass


def _pack_error(error: BaseException) -> bytes:
    """Return it as itself if it survives that, and as words."""
    first = error.__traceback__
    trace = None if first is None else first.tb_next  # without the frame of ours
    words = "".join(traceback.format_exception(type(error), error, trace))
    packed: bytes | None
    try:
        packed = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
        if type(pickle.loads(packed)) is not type(error):
            packed = None
    except BaseException:  # whatever its own code does
        packed = None
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    try:
        message = str(error)
    except Exception:
        message = "(an exception that cannot be shown)"
    return pickle.dumps((packed, name.removeprefix("builtins."), message, words))


# -- finding what is called --------------------------------------------------------

#: How to import the main script of the caller, for :mod:`multiprocessing`.
_main_data: dict[str, Any] = {}
_is_main_here = False
_is_preparing = False


def is_preparing() -> bool:
    """Is this a worker that imports what it is to call?"""
    return _is_preparing


def _prepare_call(request: bytearray, calls: _Calls) -> tuple[str, Callable[[], Any]]:
    """Return the name of what is called, and something that calls it.

    :raises _Trouble: it, or an argument, cannot be found or made here.
    """
    global _is_preparing
    name, place, pickled, cwd, setting, body = pickle.loads(request)
    _settle_in(cwd, setting)
    _is_preparing = True
    try:
        function = _find(*place) if place else _load(pickled)
        function = getattr(function, "function", function)
        if not callable(function):
            raise _Trouble(f"{name} is no function in a worker process: {function!r}")
        args, kwargs, context = _load(body)
        if context is not None:
            kwargs[context["parameter"]] = calls.context(context)
    except _Trouble:
        raise
    except BaseException as error:  # an import may raise anything, SystemExit too
        raise _Trouble(_explain(name, error)) from None
    finally:
        _is_preparing = False
    return name, lambda: function(*args, **kwargs)


def _explain(name: str, error: BaseException) -> str:
    words = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return (
        f"{name} cannot be called in a worker process, as that could not import it or "
        f"its arguments: {type(error).__name__}: {error}\nA worker imports the module "
        "that a function is in; if that is the main script, what the script does must "
        f'stand under if __name__ == "__main__".\n{words}'
    )


def _settle_in(cwd: str | None, setting: tuple[Any, ...] | None) -> None:
    global _main_data
    if setting is not None:
        sys.path[:], sys.argv[:], _main_data = setting
    if cwd is not None:
        try:
            os.chdir(cwd)
        except OSError as error:
            raise _Trouble(f"a worker process cannot go to {cwd}: {error}") from None


def _find(module: str, qualname: str) -> Any:
    if module == "__main__":
        _import_main()
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def _import_main() -> None:
    global _is_main_here
    if not _is_main_here:
        from multiprocessing.spawn import prepare

        prepare(_main_data)
        _is_main_here = True


class _Unpickler(pickle.Unpickler):
    """One that imports the main script if, and only if, something of it is sent."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("__main__", "__mp_main__"):
            _import_main()
        return super().find_class(module, name)


def _load(data: bytes) -> Any:
    return _Unpickler(io.BytesIO(data)).load()


# -- what the function may say ------------------------------------------------------


class _Calls:
    """What a function says to the other side while it runs, from any of its threads."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self._is_open = True
        self._context: Any = None

    def context(self, data: dict[str, Any]) -> Any:
        """Return the context that the function is given."""
        from ...cancel import CancelToken
        from ..context import ToolContext

        self._context = ToolContext(
            token=CancelToken(data["timeout"]),
            run_id=data["run_id"],
            call_id=data["call_id"],
            tool_name=data["tool_name"],
            idempotency_key=data["idempotency_key"],
            grace=data["grace"],
            credentials=data["credentials"],
            emit=self._tell,
            ask=self._ask,
        )
        return self._context

    def _tell(self, value: Any) -> None:
        self._say(PROGRESS, value)

    def _ask(self, question: str) -> Any:
        with self._asking:
            self._say(ASK, question)
            _, answer = self._channel.receive()
        return pickle.loads(answer)

    def _say(self, kind: bytes, value: Any) -> None:
        payload = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        with self._sending:
            if not self._is_open:
                raise RuntimeError("the call that this belongs to is over")
            self._channel.send(kind, payload)

    def close(self) -> None:
        """Have what a forgotten thread says from now on go nowhere."""
        with self._sending:
            self._is_open = False
        if self._context is not None:
            self._context.close()
