"""Call a function in a worker process, which a cancel can kill.

A worker makes one call at a time and is then kept for the next. Its module globals, its
signal handlers and its environment (that of the moment when it was started) live on;
the working directory and ``sys.path`` are the caller's each time. :func:`close_idle`
ends those that wait, so that the next calls begin in new ones.
"""

from __future__ import annotations

import os
import pickle
import sys
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ...cancel import CancelToken
from ...cancel.once import finish_despite_signals
from ...exceptions import Cancelled, ConfigurationError, ToolError
from . import pool, worker
from .groups import check_system, describe_end

if TYPE_CHECKING:
    from ..context import ToolContext
    from ..tool import AnyTool

__all__ = [
    "RemoteError",
    "Target",
    "WorkerDied",
    "WorkerKilled",
    "call",
    "call_in_process",
    "find_target",
]


class WorkerKilled(Exception):
    """A cancel killed the worker process that ran a function.

    :param name: of the function.
    :param started: had the call been sent? If not, nothing has happened.
    """

    def __init__(self, name: str, started: bool) -> None:
        super().__init__(name, started)
        self.name = name
        self.started = started

    def __str__(self) -> str:
        return f"the process that ran {self.name} was killed by a cancel"


class WorkerDied(Exception):
    """A worker process ended in the middle of a call, and not by us.

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


class RemoteError(Exception):
    """A function in a worker process raised something that cannot be sent as it is.

    :param type_name: the exception's class.
    :param message: what it said.
    """

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(type_name, message)
        self.type_name = type_name
        self.message = message

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}"


class _RemoteTraceback(Exception):
    """Where an exception of a worker process came from; shown as its cause."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class Target(msgspec.Struct, frozen=True):
    """How a worker process finds what it is to call."""

    #: For messages.
    name: str
    #: Module and qualified name, or nothing.
    place: tuple[str, str] | None = None
    #: The callable itself, if it is not found by name.
    pickled: bytes = b""


def find_target(function: Callable[..., Any]) -> Target:
    """Return how a worker process finds *function*.

    Functions are found by module and name; if what stands there has an attribute
    ``function``, as a tool has, that is called. Other callables are pickled.

    :raises ConfigurationError: a worker cannot find it.
    """
    if not callable(function):
        raise ConfigurationError(f"only what can be called is; got {function!r}")
    qualname = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None)
    name = f"{module}.{qualname}"
    if isinstance(function, types.FunctionType):
        _check_name(name, module, qualname)
        return Target(name, (str(module).replace("__mp_main__", "__main__"), qualname))
    try:
        return Target(name, None, pickle.dumps(function, pickle.HIGHEST_PROTOCOL))
    except Exception as error:
        raise ConfigurationError(
            f"{name} cannot be sent to a worker process ({error}); use a function at "
            "the top level of a module, or isolation='thread'"
        ) from error


def _check_name(name: str, module: str | None, qualname: str) -> None:
    if "<" in qualname or not module:
        raise ConfigurationError(
            f"{name} cannot be found by name in a worker process; move it to the top "
            "level of a module, or use isolation='thread'"
        )
    if module == "__main__" and not _main_data():
        raise ConfigurationError(
            f"{name} was typed in, and a worker process cannot import that; put it "
            "into a file, or use isolation='thread'"
        )


def _main_data() -> dict[str, Any]:
    """Return how another process imports the main script, nothing if it cannot.

    As :func:`multiprocessing.spawn.get_preparation_data` does; but that one decides the
    start method of the program for good.
    """
    main = sys.modules["__main__"]
    name = getattr(main.__spec__, "name", None)
    if name is not None:
        return {"init_main_from_name": name}
    path = getattr(main, "__file__", None)
    if path is None or not os.path.exists(path):
        return {}
    return {"init_main_from_path": os.path.abspath(path)}


def call(
    target: Target,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    context: dict[str, Any] | None,
    kill_on: Sequence[CancelToken],
    serve: Callable[[str, Any], Any],
) -> Any:
    """Call a function in a worker process, and return or raise what it does.

    An exception has the worker's traceback as its cause. It is of the same type if that
    can be pickled, else it is a :exc:`RemoteError`.

    Cancellation: of a token in *kill_on* kills the worker's process group at once.

    :param context: for a :class:`~syncagent.tools.context.ToolContext` in the worker,
        which is given under the name ``context["parameter"]``.
    :param kill_on: whose cancel stops it.
    :param serve: called on this thread with ``"progress"`` and a value, or with
        ``"ask"`` and a question, to which it returns the answer.
    :raises ConfigurationError: the worker cannot find the function or an argument.
    :raises TypeError: an argument, or the result, cannot be pickled.
    :raises WorkerDied: it ended by itself in the middle of the call.
    :raises WorkerKilled: a cancel killed it.
    """
    _check_place(target)
    body = _pack(target, "arguments", (args, kwargs, context))
    if any(token.cancelled for token in kill_on):
        raise WorkerKilled(target.name, started=False)
    while True:
        leased, is_new = pool.current.lease()
        try:
            request = _request(target, leased.news(sys.path), body)
            done = leased.exchange(request, kill_on, _reply_by(target, serve))
            outcome = None if done.frame is None else _read(target, *done.frame)
        except BaseException:
            finish_despite_signals(leased.end)
            raise
        if outcome is None or done.was_killed:
            finish_despite_signals(leased.end)
        else:
            pool.current.give_back(leased)
        if outcome is not None:  # the call was over before a kill could end it
            return outcome.deliver()
        if done.was_killed:
            raise WorkerKilled(target.name, started=done.was_sent)
        if done.was_sent or is_new:
            raise WorkerDied(target.name, leased.returncode)


def _check_place(target: Target) -> None:
    check_system()
    if worker.is_preparing():
        raise ConfigurationError(
            f"{target.name} was to be called while a worker process imports the module "
            "that it is in; what a script does must stand under "
            'if __name__ == "__main__"'
        )


def _pack(target: Target, what: str, value: Any) -> bytes:
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise TypeError(
            f"{what} of {target.name} cannot be sent to its process ({error}); what "
            "process tools are given must pickle: use plain data"
        ) from error


def _request(target: Target, path: list[str] | None, body: bytes) -> bytes:
    try:
        cwd = os.getcwd()
    except FileNotFoundError:  # it was removed: stay where you are
        cwd = None
    setting = None if path is None else (path, sys.argv, _main_data())
    return pickle.dumps(
        (target.name, target.place, target.pickled, cwd, setting, body),
        pickle.HIGHEST_PROTOCOL,
    )


def _reply_by(
    target: Target, serve: Callable[[str, Any], Any]
) -> Callable[[bytes, bytearray], bytes | None]:
    """Return what answers the frames that a running function sends."""

    def reply(kind: bytes, payload: bytearray) -> bytes | None:
        value = pickle.loads(payload)
        if kind == worker.PROGRESS:
            serve("progress", value)
            return None
        return _pack(target, "an answer to a question", serve("ask", value))

    return reply


class _Outcome(NamedTuple):
    value: Any = None
    error: BaseException | None = None

    def deliver(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


def _read(target: Target, kind: bytes, payload: bytearray) -> _Outcome:
    """Return what the last frame of a call says.

    :raises BaseException: the worker cannot be used again.
    """
    if kind == worker.RAISED:
        return _Outcome(error=_read_error(payload))
    if kind == worker.UNPICKLABLE:
        return _Outcome(error=TypeError(payload.decode()))
    if kind == worker.TROUBLE:  # something may be imported by half
        raise ConfigurationError(payload.decode())
    try:
        return _Outcome(pickle.loads(payload))
    except Exception as error:
        raise TypeError(
            f"what {target.name} returned cannot be unpickled here "
            f"({type(error).__name__}: {error}); return plain data"
        ) from error


def _read_error(payload: bytearray) -> BaseException:
    packed, type_name, message, words = pickle.loads(payload)
    error: BaseException | None = None
    if packed is not None:
        try:
            error = pickle.loads(packed)
        except Exception:  # its module may be known in the worker only
            pass
    if error is None:
        error = RemoteError(type_name, message)
    error.__cause__ = _RemoteTraceback(words)
    return error


def call_in_process(
    tool: AnyTool,
    args: list[Any],
    kwargs: dict[str, Any],
    context: ToolContext,
    forced: CancelToken,
) -> Any:
    """Call *tool* in a worker process.

    Cancellation: by the tool's policy; ``kill`` ends it, with all that it has started,
    at once, and so does its timeout, or force, whatever the policy.
    """
    kill_on = [forced]
    if tool.on_cancel == "kill":
        kill_on.append(context.token)
    elif tool.timeout is not None:
        kill_on.append(CancelToken(tool.timeout))
    name = tool.signature.context_name

    def serve(kind: str, value: Any) -> Any:
        return context.ask(value) if kind == "ask" else context.progress(value)

    known = {
        "parameter": name,
        "run_id": context.run_id,
        "call_id": context.call_id,
        "tool_name": context.tool_name,
        "idempotency_key": context.idempotency_key,
        "grace": tool.grace,
        "credentials": context.credentials,
        "timeout": tool.timeout,
    }
    try:
        return call(
            find_target(tool.function),
            tuple(args),
            kwargs,
            context=None if name is None else known,
            kill_on=kill_on,
            serve=serve,
        )
    except WorkerKilled:
        raise
    except WorkerDied as error:
        raise ToolError(str(error)) from error
    except (Exception, Cancelled) as error:
        if isinstance(error, MemoryError) and _is_remote(error):
            raise _as_tool_error(error) from error.__cause__
        raise
    except BaseException as error:
        if _is_remote(error):
            raise _as_tool_error(error) from error.__cause__
        raise  # a signal handler's: somebody wants to leave, here


def _is_remote(error: BaseException) -> bool:
    return isinstance(error.__cause__, _RemoteTraceback)


def _as_tool_error(error: BaseException) -> ToolError:
    """In a process of its own, whatever it is is a tool's end, and not ours."""
    return ToolError(f"it ended its process: {error!r}")
