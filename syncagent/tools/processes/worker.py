"""The life of a worker process: receive a call, make it, send back its result.

This module imports little, so that a worker starts fast. A worker makes one call after
the other; module globals, signal handlers and the environment survive from call to
call. Before each call it takes over the caller's working directory, ``sys.path`` and
``sys.argv``; after each call it clears a pending alarm and flushes its output.

A function may fork. Only the worker itself returns to its parent: a child that comes
back from the function, too, ends there, and cannot use the context.
"""

from __future__ import annotations

import importlib
import io
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from .channel import (
    NOT_CALLED,
    PROGRESS,
    QUESTION,
    RAISED,
    RETURNED,
    TOO_LARGE,
    UNPICKLABLE,
    Channel,
)
from .groups import mark_as_worker

if TYPE_CHECKING:
    from ...cancel import CancelToken
    from ..context import ToolContext

__all__ = ["check_not_preparing", "main"]

#: Characters of the message, and of the traceback, of an exception that is too large.
_TEXT: Final = 10_000


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
            packed = channel.receive()
            channel.send(*_make_call(packed, channel))
        except (EOFError, OSError):
            return


def _make_call(packed: memoryview, channel: Channel) -> tuple[bytes, bytes]:
    """Make one call, and return the frame for its end."""
    services = _RemoteServices(channel)
    try:
        try:
            name, call = _prepare_call(packed, services)
        finally:
            services.end_forked_child()
    except _CannotCall as error:
        return NOT_CALLED, _encode(str(error))
    try:
        try:
            result = call()
        finally:
            services.end_forked_child()
    except BaseException as error:  # SystemExit too: the caller handles it
        return RAISED, _pack_error(error, services.limit)
    finally:
        services.close()
        signal.alarm(0)  # it would hit the next call; setitimer() sets the same timer
        _flush()
    try:
        payload = pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except BaseException as error:  # its own code may raise anything
        return UNPICKLABLE, _encode(
            f"{name} returned a {type(result).__qualname__}, which cannot be pickled "
            f"({error}); a tool in a process must return plain data"
        )
    if len(payload) > services.limit:
        return TOO_LARGE, _encode(
            f"{name} returned {len(payload):,} bytes, and its max_result_bytes is "
            f"{services.limit:,}; return less, or write a file and return its path"
        )
    return RETURNED, payload


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # closed, replaced, or full
            pass


def _encode(text: str) -> bytes:
    return text[: 10 * _TEXT].encode(errors="backslashreplace")


def _pack_error(error: BaseException, limit: int) -> bytes:
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
    frame = pickle.dumps((packed, name.removeprefix("builtins."), message, text))
    if len(frame) > limit:
        message, text = message[:_TEXT], text[-_TEXT:]
        frame = pickle.dumps((None, name.removeprefix("builtins."), message, text))
    return frame


# -- finding the function ----------------------------------------------------------

#: ``sys.path`` and ``sys.argv`` of the caller, and how :mod:`multiprocessing` imports
#: its main script; replaced when the caller's have changed.
_surroundings: tuple[list[str], list[str], dict[str, Any]] = ([], [], {})
#: The lists themselves, to which modules of the program may refer.
_PATH: Final = sys.path
_ARGV: Final = sys.argv
_is_main_here = False
_is_preparing = False


def check_not_preparing(name: str) -> None:
    """Refuse calls while a worker imports the function that it is about to call.

    :param name: the function that is called in the meantime.
    :raises ConfigurationError: this is such a worker.
    """
    if _is_preparing:
        from ...exceptions import ConfigurationError

        raise ConfigurationError(
            f"{name} was called while a worker process imports its module; put the "
            'code that starts the program under if __name__ == "__main__"'
        )


def _prepare_call(
    packed: memoryview, services: _RemoteServices
) -> tuple[str, Callable[[], Any]]:
    """Return the name of the function, and the call without its arguments.

    :raises _CannotCall: the function or an argument cannot be imported here.
    """
    global _is_preparing, _surroundings
    name, place, pickled, cwd, update, services.limit, body = pickle.loads(packed)
    if update is not None:
        _surroundings = update
    # Each time: the function of another call may have changed or replaced them.
    sys.path, sys.argv = _PATH, _ARGV
    _PATH[:], _ARGV[:], _ = _surroundings
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
            loaded = sys.modules.get(module)
            function: Any = loaded or importlib.import_module(module)
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

        prepare(_surroundings[2])
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
        #: The bytes of the largest frame that the parent accepts.
        self.limit = 0
        self._process = channel.process
        self._channel = channel
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self._is_open = True
        self._context: Any = None
        self.metadata: dict[str, Any] = {}
        #: As the parent sent them: pickled, or why that was impossible.
        self._packed_deps: bytes | str | None = None
        self._deps: Any = None

    @property
    def deps(self) -> Any:
        """A copy of the deps of the run, made when it is first needed."""
        packed = self._packed_deps
        if isinstance(packed, bytes):
            try:
                self._deps, self._packed_deps = pickle.loads(packed), None
            except Exception as error:
                packed = (
                    "the deps of this run cannot be unpickled in the process of the "
                    f"tool ({type(error).__name__}); use isolation='thread'"
                )
        if isinstance(packed, str):
            from ...exceptions import ToolError

            raise ToolError(packed)
        return self._deps

    def context(self, data: dict[str, Any]) -> Any:
        """Return the context for the function."""
        from ...cancel import CancelToken
        from ..context import ToolContext

        self.run_id, self.forced = data["run_id"], CancelToken()
        self.metadata = data.get("metadata", {})
        self._packed_deps = data.get("deps")
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

    def ask(
        self,
        invocation: Any,
        token: CancelToken,
        question: str,
        form: dict[str, Any] | None,
    ) -> Any:
        """Have the parent ask the user, and wait for the answer.

        Cancellation: the process is killed.
        """
        from ...exceptions import Declined, ToolError

        self._check_process()
        if token is not self._context.token:
            raise ToolError("ctx.ask(token=...) cannot be used in a worker process")
        with self._asking:
            self._send(QUESTION, (question, form))
            answer = pickle.loads(self._channel.receive())
        if isinstance(answer, Declined):
            raise answer
        return answer

    def cancel_call(self, call_id: Any, cause: Any, *, force: bool) -> Any:
        """Refuse: the other calls are the parent's."""
        from ...exceptions import ToolError

        raise ToolError("ctx.cancel_call() cannot be used in a worker process")

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
        self._check_process()
        payload = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        if len(payload) > self.limit:
            raise ValueError(
                f"{len(payload):,} bytes cannot be sent, because max_result_bytes is "
                f"{self.limit:,}"
            )
        with self._sending:
            if not self._is_open:
                raise RuntimeError("the call of this context is over")
            self._channel.send(kind, payload)

    def end_forked_child(self) -> None:
        """End a forked child of the worker, which comes back from the function, too.

        It ends as a program does that raises the exception in flight, if there is one.
        """
        if os.getpid() == self._process:
            return
        error, status = sys.exc_info()[1], 0
        if isinstance(error, SystemExit) and isinstance(error.code, int | None):
            status = error.code or 0
        elif error is not None:
            traceback.print_exception(error)
            status = 1
        _flush()
        os._exit(status & 0xFF)

    def _check_process(self) -> None:
        # Before any lock: it may have been taken when the process forked.
        if os.getpid() != self._process:
            raise RuntimeError("the context cannot be used in a forked child")

    def close(self) -> None:
        """Refuse further messages: a thread of the function may still be running."""
        with self._sending:
            self._is_open = False
        # A thread that has asked must get its answer first: from now on the next call
        # is received.
        with self._asking:
            pass
        if self._context is not None:
            self._context.close()
