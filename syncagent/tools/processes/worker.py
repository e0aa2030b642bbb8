"""The life of a worker process: receive a call, make it, send back its result.

This module imports little, so that a worker starts fast. A worker makes one call after
the other; module globals, signal handlers and the environment survive from call to
call. Before each call it takes over the caller's working directory and ``sys.path``;
after each call it clears a pending alarm and flushes its output.
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
from typing import TYPE_CHECKING, Any, Final

from .groups import mark_as_worker

if TYPE_CHECKING:
    from ...cancel import CancelToken
    from ..context import ToolContext

__all__ = [
    "ANSWER",
    "CALL",
    "Channel",
    "NOT_CALLED",
    "PROGRESS",
    "QUESTION",
    "RAISED",
    "RETURNED",
    "UNPICKLABLE",
    "is_preparing",
    "main",
]

# The kinds of frames. To the worker: a call; the user's answer to a question.
CALL: Final = b"c"
ANSWER: Final = b"a"
# From the worker while a function runs: a progress report; a question for the user.
PROGRESS: Final = b"p"
QUESTION: Final = b"q"
# From the worker, at the end of a call: a result; a result that cannot be pickled; an
# exception; the call could not be made.
RETURNED: Final = b"r"
UNPICKLABLE: Final = b"u"
RAISED: Final = b"e"
NOT_CALLED: Final = b"n"

_HEADER: Final = struct.Struct("!cQ")
#: Payloads below this size, in bytes, are cheaper to copy than to write separately.
_SMALL: Final = 65536


class Channel:
    """Frames over a stream socket; the caller owns the socket.

    :param descriptor: of the socket.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, kind: bytes, payload: bytes) -> None:
        """Send one frame.

        Cancellation: ends when the other side is killed.

        :raises OSError: the other side is gone.
        """
        header = _HEADER.pack(kind, len(payload))
        parts = (header + payload,) if len(payload) < _SMALL else (header, payload)
        for part in parts:
            rest = memoryview(part)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def receive(self) -> tuple[bytes, bytearray]:
        """Wait for the next frame.

        Cancellation: ends when the other side is killed.

        :raises EOFError: the other side is gone.
        :raises OSError: the same.
        """
        kind, size = _HEADER.unpack(self._read(_HEADER.size))
        return kind, self._read(size)

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        with memoryview(data) as view:
            got = 0
            while got < size:
                part = os.readv(self._descriptor, [view[got:]])
                if part == 0:
                    raise EOFError("the other side is gone")
                got += part
        return data


class _CannotCall(Exception):
    """The call could not be made; the text is for the user."""


def main(descriptor: int) -> None:
    """Make calls until the other side is gone. This is the whole life of the process.

    Cancellation: the process is killed.

    :param descriptor: of the socket that calls arrive on.
    """
    mark_as_worker()
    os.set_inheritable(descriptor, False)
    # A handler: SIG_IGN would be inherited by every program that a function starts.
    signal.signal(signal.SIGINT, lambda *_: None)
    channel = Channel(descriptor)
    while True:
        try:
            _, packed = channel.receive()
            channel.send(*_make_call(packed, channel))
        except (EOFError, OSError):
            return


def _make_call(packed: bytearray, channel: Channel) -> tuple[bytes, bytes]:
    """Make one call, and return the frame for its end."""
    services = _RemoteServices(channel)
    try:
        name, call = _prepare_call(packed, services)
    except _CannotCall as error:
        return NOT_CALLED, str(error).encode()
    try:
        result = call()
    except BaseException as error:  # SystemExit too: the caller handles it
        return RAISED, _pack_error(error)
    finally:
        services.close()
        signal.setitimer(signal.ITIMER_REAL, 0)  # it would hit the next call
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):  # closed, replaced, or full
                pass
    try:
        return RETURNED, pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        text = (
            f"{name} returned a {type(result).__qualname__}, which cannot be pickled "
            f"({error}); a tool in a process must return plain data"
        )
        return UNPICKLABLE, text.encode()


def _pack_error(error: BaseException) -> bytes:
    """Return the exception as text, and pickled if it survives that."""
    first = error.__traceback__
    trace = None if first is None else first.tb_next  # without the frame of this module
    text = "".join(traceback.format_exception(type(error), error, trace))
    packed: bytes | None
    try:
        packed = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
        if type(pickle.loads(packed)) is not type(error):
            packed = None
    except BaseException:  # its own code may raise anything
        packed = None
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    try:
        message = str(error)
    except Exception:
        message = "(an exception that cannot be shown)"
    return pickle.dumps((packed, name.removeprefix("builtins."), message, text))


# -- finding the function ----------------------------------------------------------

#: How to import the main script of the caller, for :mod:`multiprocessing`.
_main_data: dict[str, Any] = {}
_is_main_here = False
_is_preparing = False


def is_preparing() -> bool:
    """True while a worker imports the function that it is about to call."""
    return _is_preparing


def _prepare_call(
    packed: bytearray, services: _RemoteServices
) -> tuple[str, Callable[[], Any]]:
    """Return the name of the function, and the call without its arguments.

    :raises _CannotCall: the function or an argument cannot be imported here.
    """
    global _is_preparing, _main_data
    name, place, pickled, cwd, update, body = pickle.loads(packed)
    if update is not None:
        sys.path[:], sys.argv[:], _main_data = update
    if cwd is not None:
        try:
            os.chdir(cwd)
        except OSError as error:
            raise _CannotCall(
                f"a worker process cannot change to the directory {cwd}: {error}"
            ) from None
    _is_preparing = True
    try:
        if place:
            module, qualname = place
            if module == "__main__":
                _import_main()
            function: Any = importlib.import_module(module)
            for part in qualname.split("."):
                function = getattr(function, part)
        else:
            function = _load(pickled)
        function = getattr(function, "function", function)
        if not callable(function):
            raise _CannotCall(
                f"{name} is not callable in a worker process: {function!r}"
            )
        args, kwargs, context = _load(body)
        if context is not None and context["parameter"]:
            kwargs[context["parameter"]] = services.context(context)
        elif context is not None:  # it has no name, and comes first
            args = (services.context(context), *args)
    except _CannotCall:
        raise
    except BaseException as error:  # an import may raise anything, SystemExit too
        trace = traceback.format_exception(type(error), error, error.__traceback__)
        raise _CannotCall(
            f"{name} cannot be called in a worker process, which failed to import it "
            f"or its arguments: {type(error).__name__}: {error}\nA worker imports the "
            "module of the function; if that is the main script, the code that starts "
            f'the program must be under if __name__ == "__main__".\n{"".join(trace)}'
        ) from None
    finally:
        _is_preparing = False
    return name, lambda: function(*args, **kwargs)


def _import_main() -> None:
    global _is_main_here
    if not _is_main_here:
        from multiprocessing.spawn import prepare

        prepare(_main_data)
        _is_main_here = True


class _Unpickler(pickle.Unpickler):
    """An unpickler that imports the main script only if an object comes from it."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("__main__", "__mp_main__"):
            _import_main()
        return super().find_class(module, name)


def _load(data: bytes) -> Any:
    return _Unpickler(io.BytesIO(data)).load()


# -- while the function runs -------------------------------------------------------


class _RemoteServices:
    """The services of the run, by way of the parent process.

    Implements :class:`~syncagent.tools.context.RunServices`. The function may use it
    on any of its threads.
    """

    can_ask = True
    watch = None

    def __init__(self, channel: Channel) -> None:
        self.run_id = ""
        self.forced: Any = None
        self.helpers: set[int] = set()
        self._channel = channel
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self._is_open = True
        self._context: Any = None

    def context(self, data: dict[str, Any]) -> Any:
        """Return the context for the function."""
        from ...cancel import CancelToken
        from ..context import ToolContext

        self.run_id, self.forced = data["run_id"], CancelToken()
        self._context = ToolContext(
            self,
            CancelToken(data["timeout"]),
            call_id=data["call_id"],
            tool_name=data["tool_name"],
            idempotency_key=data["idempotency_key"],
            grace=data["grace"],
            credentials=data["credentials"],
            answers=(),  # the parent knows those of earlier attempts
        )
        return self._context

    def report_progress(self, invocation: Any, value: Any) -> None:
        """Send a progress report to the parent."""
        self._send(PROGRESS, value)

    def ask(self, invocation: Any, token: CancelToken, question: str) -> Any:
        """Have the parent ask the user, and wait for the answer.

        Cancellation: the process is killed.
        """
        with self._asking:
            self._send(QUESTION, question)
            _, answer = self._channel.receive()
        return pickle.loads(answer)

    def run_agent(
        self, context: ToolContext, agent: Any, prompt: Any, options: dict[str, Any]
    ) -> Any:
        """Refuse: agents run only in the parent."""
        from ...exceptions import ToolError

        raise ToolError(
            f"{context.tool_name} runs in a worker process, where ctx.agent() is not "
            "available; remove isolation= or on_cancel='kill'"
        )

    def _send(self, kind: bytes, value: Any) -> None:
        payload = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        with self._sending:
            if not self._is_open:
                raise RuntimeError("the call of this context is over")
            self._channel.send(kind, payload)

    def close(self) -> None:
        """Refuse further messages: a thread of the function may still be running."""
        with self._sending:
            self._is_open = False
        if self._context is not None:
            self._context.close()
