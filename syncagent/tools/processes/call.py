"""Call a function, or a tool, in a worker process that a cancel can kill.

A worker makes one call at a time and is then kept for the next. Its module globals, its
signal handlers and its environment, copied when it was started, survive from call to
call; the working directory, ``sys.path`` and ``sys.argv`` are the caller's each time.
:func:`~syncagent.tools.processes.pool.close_idle` ends idle workers, so that the next
calls start in new ones.
"""

from __future__ import annotations

import os
import pickle
import sys
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ...cancel import CancelToken
from ...exceptions import Cancelled, ConfigurationError, Declined, ToolError
from ..settings import MAX_RESULT_BYTES
from . import channel, pool
from .channel import OutOfStep
from .groups import check_system, describe_end
from .worker import check_not_preparing

if TYPE_CHECKING:
    from ..context import ToolContext
    from ..tool import AnyTool

__all__ = [
    "RemoteError",
    "Target",
    "WorkerDied",
    "WorkerKilled",
    "WorkerOutOfStep",
    "call",
    "call_in_process",
    "find_target",
]


# -- errors ------------------------------------------------------------------------


class WorkerKilled(Exception):
    """A cancel killed the worker process that ran a function.

    :param name: of the function.
    :param started: true if the call was sent; if not, the call had no effects.
    """

    def __init__(self, name: str, started: bool) -> None:
        super().__init__(name, started)
        self.name = name
        self.started = started

    def __str__(self) -> str:
        return f"the process that ran {self.name} was killed by a cancel"


class WorkerDied(Exception):
    """A worker process ended by itself in the middle of a call.

    :param name: of the function.
    :param returncode: the exit status, or minus the number of a signal.
    """

    def __init__(self, name: str, returncode: int) -> None:
        super().__init__(name, returncode)
        self.name = name
        self.returncode = returncode

    def __str__(self) -> str:
        return (
            f"the process that ran {self.name} {describe_end(self.returncode)}; look "
            "for os._exit() in the function, a crash in an extension module (run it "
            "with PYTHONFAULTHANDLER=1), or a lack of memory (SIGKILL by the system)"
        )


class WorkerOutOfStep(Exception):
    """A worker process has sent something else than the result of its call.

    :param name: of the function.
    :param problem: the wrong bytes, as part of a sentence.
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"the process that ran {self.name} was killed because its connection is "
            f"out of step: {self.problem}; look for code that writes to descriptors "
            "that it did not open, in the function or in a process that it has left"
        )


class RemoteError(Exception):
    """A function in a worker process raised an exception that cannot be unpickled.

    :param type_name: the name of the exception's class.
    :param message: its message.
    """

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(type_name, message)
        self.type_name = type_name
        self.message = message

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}"


class _RemoteTraceback(Exception):
    """The traceback from a worker process; shown as the cause of its exception."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


# -- finding the function ----------------------------------------------------------


class Target(msgspec.Struct, frozen=True):
    """A callable as a worker process finds it."""

    #: For messages.
    name: str
    #: Module and qualified name, if it is found by name.
    place: tuple[str, str] | None = None
    #: The callable itself, if it is not.
    pickled: bytes = b""


def find_target(function: Callable[..., Any]) -> Target:
    """Return *function* as a worker process finds it.

    Functions are found by module and name; if the object found has an attribute
    ``function``, as a tool has, that is called. Other callables are pickled.

    :raises ConfigurationError: a worker cannot find it.
    """
    if not callable(function):
        raise ConfigurationError(f"a worker calls functions; got {function!r}")
    qualname = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None)
    name = f"{module}.{qualname}"
    if isinstance(function, types.FunctionType):
        if "<" in qualname or not module:
            raise ConfigurationError(
                f"a worker process cannot import {name}; move it to the top level of a "
                "module, or use isolation='thread'"
            )
        if module == "__main__" and not _main_data():
            raise ConfigurationError(
                f"a worker process cannot import {name}, which was defined "
                "interactively; put it into a file, or use isolation='thread'"
            )
        return Target(name, (str(module).replace("__mp_main__", "__main__"), qualname))
    try:
        return Target(name, None, pickle.dumps(function, pickle.HIGHEST_PROTOCOL))
    except Exception as error:
        raise ConfigurationError(
            f"{name} cannot be pickled for a worker process ({error}); use a function "
            "at the top level of a module, or isolation='thread'"
        ) from error


def _main_data() -> dict[str, Any]:
    """Return how another process imports the main script, empty if it cannot.

    The same as :func:`multiprocessing.spawn.get_preparation_data`, which would also fix
    the start method of the program.
    """
    main = sys.modules["__main__"]
    name = getattr(main.__spec__, "name", None)
    if name is not None:
        return {"init_main_from_name": name}
    path = getattr(main, "__file__", None)
    if path is None or not os.path.exists(path):
        return {}
    return {"init_main_from_path": os.path.abspath(path)}


# -- one call ----------------------------------------------------------------------


def call(
    target: Target,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    context: dict[str, Any] | None,
    kill_on: Sequence[CancelToken],
    serve: Callable[[str, Any], Any],
    limit: int = MAX_RESULT_BYTES,
) -> Any:
    """Call a function in a worker process; return its result or raise its exception.

    The cause of an exception is the worker's traceback. An exception that cannot be
    pickled is raised as a :exc:`RemoteError`.

    Cancellation: of a token in *kill_on* kills the worker's process group at once.

    :param context: the data of a :class:`~syncagent.tools.context.ToolContext` in the
        worker, which is passed as the argument ``context["parameter"]``.
    :param serve: called on this thread with ``"progress"`` and a value, or with
        ``"ask"``, a question and its form; then it returns the answer.
    :param limit: the bytes of the largest result, pickled.
    :raises ConfigurationError: the worker cannot import the function or an argument.
    :raises TypeError: an argument, or the result, cannot be pickled.
    :raises ValueError: the result is too large.
    :raises WorkerDied: the worker ended by itself in the middle of the call.
    :raises WorkerKilled: a cancel killed the worker.
    :raises WorkerOutOfStep: something else than the result has arrived.
    """
    check_system()
    check_not_preparing(target.name)
    body = _pack(target, "the arguments", (args, kwargs, context))
    if any(token.cancelled for token in kill_on):
        raise WorkerKilled(target.name, started=False)
    # Holds the worker from its lease to its end or its return to the pool.
    owned: list[pool.WorkerProcess] = []
    while True:
        try:
            try:
                is_new = pool.current.lease(owned)
                leased = owned[0]
                packed = _pack_call(target, leased.path_update(sys.path), limit, body)
                end = leased.call(packed, kill_on, _serving(target, serve), limit)
                result = None if end.frame is None else _read_result(target, *end.frame)
                is_spent = result is None or end.was_killed or not end.is_clean
                pool.current.give_back(owned, is_spent=is_spent)
            except BaseException:
                pool.end_despite_signals(owned)
                raise
        except OutOfStep as error:
            raise WorkerOutOfStep(target.name, str(error)) from None
        except BaseException:  # a signal handler may have raised before that
            pool.end_despite_signals(owned)
            raise
        if result is not None:  # the call ended before the kill
            return result.unwrap()
        if end.was_killed:
            raise WorkerKilled(target.name, started=end.was_sent)
        if end.was_sent or is_new:
            raise WorkerDied(target.name, leased.returncode)


def _pack(target: Target, what: str, value: Any) -> bytes:
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise TypeError(
            f"{what} of {target.name} cannot be pickled for its process ({error}); use "
            "plain data"
        ) from error


def _pack_call(
    target: Target, path: list[str] | None, limit: int, body: bytes
) -> bytes:
    try:
        cwd = os.getcwd()
    except FileNotFoundError:  # it was removed; the worker stays where it is
        cwd = None
    update = None if path is None else (path, sys.argv, _main_data())
    return pickle.dumps(
        (target.name, target.place, target.pickled, cwd, update, limit, body),
        pickle.HIGHEST_PROTOCOL,
    )


def _serving(
    target: Target, serve: Callable[[str, Any], Any]
) -> Callable[[bytes, memoryview], bytes | None]:
    """Return the function that serves the frames of a running function."""

    def serve_frame(kind: bytes, payload: memoryview) -> bytes | None:
        value = _load(payload)
        if kind == channel.PROGRESS:
            serve("progress", value)
            return None
        return _pack(target, "an answer to a question", serve("ask", value))

    return serve_frame


def _load(payload: memoryview) -> Any:
    try:
        return pickle.loads(payload)
    except Exception as error:  # MemoryError too: it is read from wrong bytes
        raise OutOfStep(f"it sent a broken frame ({error!r})") from error


class _RemoteResult(NamedTuple):
    value: Any = None
    error: BaseException | None = None

    def unwrap(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


def _read_result(target: Target, kind: bytes, payload: memoryview) -> _RemoteResult:
    """Return the result that the last frame of a call holds.

    :raises BaseException: the worker cannot be used again.
    """
    if kind == channel.RETURNED:
        try:
            return _RemoteResult(pickle.loads(payload))
        except Exception as error:
            raise TypeError(
                f"the result of {target.name} cannot be unpickled here "
                f"({type(error).__name__}: {error}); return plain data"
            ) from error
    if kind == channel.RAISED:
        try:
            packed, type_name, message, text = _load(payload)
        except (TypeError, ValueError) as error:
            raise OutOfStep(f"it sent a broken frame ({error!r})") from error
        raised: BaseException | None = None
        if packed is not None:
            with suppress(Exception):  # only the worker can import its module
                raised = pickle.loads(packed)
        if not isinstance(raised, BaseException):
            raised = RemoteError(type_name, message)
        raised.__cause__ = _RemoteTraceback(text)
        return _RemoteResult(error=raised)
    text = str(payload, "utf-8", "replace")
    if kind == channel.NOT_CALLED:  # a module may be half imported
        raise ConfigurationError(text)
    failure = ValueError if kind == channel.TOO_LARGE else TypeError
    return _RemoteResult(error=failure(text))


# -- tools -------------------------------------------------------------------------


def call_in_process(
    tool: AnyTool,
    args: list[Any],
    kwargs: dict[str, Any],
    context: ToolContext,
    forced: CancelToken,
) -> Any:
    """Call *tool* in a worker process.

    Cancellation: by the tool's policy. ``kill`` ends it at once, with everything it
    has started; so do its timeout and ``force``, whatever the policy.
    """
    kill_on = [forced]
    if tool.on_cancel == "kill":
        kill_on.append(context.token)
    elif tool.timeout is not None:
        kill_on.append(CancelToken(tool.timeout))

    def serve(kind: str, value: Any) -> Any:
        if kind != "ask":
            return context.progress(value)
        question, form = value
        try:
            return context.ask(question, form=form)
        except Declined as declined:  # the tool may catch it, over there
            return Declined(str(declined))

    try:
        return call(
            find_target(tool.function),
            tuple(args),
            kwargs,
            context=_context_data(tool, context),
            kill_on=kill_on,
            serve=serve,
            limit=tool.max_result_bytes,
        )
    except WorkerKilled:
        raise
    except (WorkerDied, WorkerOutOfStep) as error:
        raise ToolError(str(error)) from error
    except (Exception, Cancelled) as error:
        if isinstance(error, MemoryError) and _is_remote(error):
            raise _as_tool_error(error) from error.__cause__
        raise
    except BaseException as error:
        if _is_remote(error):
            raise _as_tool_error(error) from error.__cause__
        raise  # from a signal handler in this process


def _context_data(tool: AnyTool, context: ToolContext) -> dict[str, Any] | None:
    """Return the context as it goes to the worker; ``None`` if the tool takes none."""
    name = tool.signature.context_name
    if name is None:
        return None
    return {
        "parameter": name,
        "run_id": context.run_id,
        "call_id": context.call_id,
        "tool_name": context.tool_name,
        "idempotency_key": context.idempotency_key,
        "grace": tool.grace,
        "credentials": context.credentials,
        "timeout": tool.timeout,
        "deps": _pack_deps(tool, context),
        "metadata": context.metadata,
    }


def _pack_deps(tool: AnyTool, context: ToolContext) -> bytes | str | None:
    """Return the deps of the run, pickled, or why that is impossible.

    The worker unpickles them when the tool looks at them: a tool that does not is
    called all the same.
    """
    deps = context.deps
    if deps is None:
        return None
    try:
        return pickle.dumps(deps, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        return (
            f"the deps of this run cannot be pickled for the process of {tool.name} "
            f"({type(error).__name__}); leave out connections and locks, or use "
            "isolation='thread'"
        )


def _is_remote(error: BaseException) -> bool:
    return isinstance(error.__cause__, _RemoteTraceback)


def _as_tool_error(error: BaseException) -> ToolError:
    # An exit or Ctrl+C in the worker ends the tool, not this process.
    return ToolError(f"it ended its process: {error!r}")
