"""A tool in a process of its own."""

from __future__ import annotations

from typing import Any

from ..cancel import CancelToken
from ..exceptions import Cancelled, ToolError
from .context import ToolContext
from .tool import AnyTool
from .workers import (
    WorkerDied,
    WorkerKilled,
    _RemoteTraceback,
    call,
    find_target,
)

__all__ = ["call_in_process"]


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
