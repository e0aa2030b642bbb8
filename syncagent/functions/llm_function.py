"""``@llm_function``: functions with typed arguments and results, run by a model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from inspect import Parameter
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    TypeVar,
    cast,
    overload,
)

from ..agent import Agent
from ..background.handle import Handle
from ..conversation.request import Cancel
from ..conversation.run_stream import RunStream
from ..exceptions import (
    ConfigurationError,
    InterruptPending,
    LimitReached,
    OutputInvalid,
)
from ..messages import AssistantMessage
from ..models.model import Model
from ..result import RunResult
from ..run.output import REPAIRS, Output
from ..tools.agent_tool import AgentTool
from ..tools.context import ToolContext
from ..tools.tool import AnyTool
from .parameters import Parameters, rendered
from .stand_in import AgentMaker, StandIn

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._arguments import AgentArguments, FunctionArguments

__all__ = ["LlmFunction", "llm_function"]

_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_S = TypeVar("_S")
_T = TypeVar("_T")

#: The parameter of a tool that receives its context.
_CONTEXT: Final = "tool_context"


class LlmFunction(StandIn, Generic[_P, _T]):
    """A function whose body is a model; :func:`llm_function` makes it.

    Each call has its own agent: any number of threads may call it at once, and one of
    its tools may call it again.
    """

    def __init__(
        self,
        function: Callable[_P, _T],
        maker: AgentMaker,
        repairs: int,
    ) -> None:
        super().__init__(function, maker)
        self._output = _read_output(self._parameters, repairs)

    # -- calling it ----------------------------------------------------------------

    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _T: ...

    @overload
    def __call__(
        self, *args: Any, cancel: Cancel | None, timeout: float | None = ..., **kw: Any
    ) -> _T: ...

    @overload
    def __call__(
        self, *args: Any, timeout: float | None, cancel: Cancel | None = ..., **kw: Any
    ) -> _T: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Send the arguments to the model, and return its response as a value.

        Cancellation: ends at once, wherever it waits, and raises ``RunCancelled``.

        :param cancel: an event or a token that cancels the call; it is never cleared.
        :param timeout: seconds after which the call is cancelled.
        :raises RunCancelled: the call was cancelled; ``error.result`` has the result so
            far.
        :raises LimitReached: a limit ended the call.
        :raises OutputInvalid: the response is not of the return type.
        :raises InterruptPending: a question was raised that no handler can answer.
        :raises SyncAgentError: the model gave no response.
        """
        agent, options = self._prepare(args, kwargs)
        result = agent.run(**options)
        if result.handle is not None:  # moved to the background: a call still waits
            with result.handle as handle:
                # Ends with the run, which cancel= and timeout= still cancel.
                result = handle.result(timeout=None)
        return self.value(result)

    @overload
    def stream(self, *args: _P.args, **kwargs: _P.kwargs) -> RunStream[_T]: ...

    @overload
    def stream(
        self, *args: Any, cancel: Cancel | None, timeout: float | None = ..., **kw: Any
    ) -> RunStream[_T]: ...

    @overload
    def stream(
        self, *args: Any, timeout: float | None, cancel: Cancel | None = ..., **kw: Any
    ) -> RunStream[_T]: ...

    def stream(self, *args: Any, **kwargs: Any) -> RunStream[Any]:
        """Make the same call, and return its events as a stream.

        ``value(stream.result)`` returns the value of the call.

        Cancellation: ends at once, wherever it waits; the last event says so.
        """
        agent, options = self._prepare(args, kwargs)
        return agent.stream(**options)

    @overload
    def start(self, *args: _P.args, **kwargs: _P.kwargs) -> Handle[_T]: ...

    @overload
    def start(
        self, *args: Any, cancel: Cancel | None, timeout: float | None = ..., **kw: Any
    ) -> Handle[_T]: ...

    @overload
    def start(
        self, *args: Any, timeout: float | None, cancel: Cancel | None = ..., **kw: Any
    ) -> Handle[_T]: ...

    def start(self, *args: Any, **kwargs: Any) -> Handle[Any]:
        """Make the same call in the background, on its own daemon thread.

        ``value(handle.result())`` returns the value of the call.
        """
        agent, options = self._prepare(args, kwargs)
        return agent.start(**options)

    def value(self, result: RunResult) -> _T:
        """Return the value of a run of this function, or raise as a call does.

        :param result: of :meth:`stream`, or of the handle of :meth:`start`.
        :raises RunCancelled: the run was cancelled.
        :raises LimitReached: a limit ended the run.
        :raises OutputInvalid: the model refused, or its response was cut off.
        :raises InterruptPending: a question was raised that no handler can answer.
        """
        label = self._parameters.label
        if result.stop_reason == "limit" and result.limit is not None:
            raise LimitReached(
                f"{label}: the limit on {result.limit.replace('_', ' ')} ended the "
                "call before it had a value; allow more with limits=Limits(...)",
                result=result,
            )
        result.raise_for_status()
        if result.stop_reason == "backgrounded":
            raise ConfigurationError(
                f"{label}: the run continues in the background and has no value yet; "
                "wait for result.handle.result()"
            )
        if result.stop_reason == "interrupt":
            tools = ", ".join(
                getattr(each, "tool", each.id) for each in result.interrupts
            )
            raise InterruptPending(
                f"{label}: there is a question about {tools}, and no handler to answer "
                "it; give @llm_function approve=, authenticate= or ask=, or call "
                ".start() and answer with handle.answer()",
                result=result,
            )
        if result.stop_reason == "max_tokens":
            raise OutputInvalid(
                f"{label}: the response was cut off at the token limit of the model; "
                "give the model a larger max_tokens=",
                result=result,
                text=result.text,
            )
        if result.stop_reason == "refusal":
            last = result.messages[-1] if result.messages else None
            refusal = last.refusal if isinstance(last, AssistantMessage) else ""
            raise OutputInvalid(
                f"{label}: the model refused: {refusal or result.text or 'no reason'}",
                result=result,
                text=result.text,
            )
        return cast("_T", result.output)

    # -- variants ------------------------------------------------------------------

    def using(self, **settings: Unpack[FunctionArguments]) -> LlmFunction[_P, _T]:
        """Return a copy with other settings, such as another model for a test.

        :param settings: those of :func:`llm_function`.
        """
        changes: dict[str, Any] = {**settings}
        repairs = changes.pop("repairs", None)
        other = self._changed(changes)
        if repairs is not None:
            other._output = _read_output(self._parameters, repairs)
        return other

    def as_tool(self) -> AnyTool:
        """Return a tool that calls this function; ``tools=[function]`` calls it.

        A call ends with the run that makes it. Its events, its usage and its questions
        become those of that run.

        :raises ConfigurationError: it is a method that is not bound to an object.
        """
        parameters = self._parameters
        if parameters.receiver is not None and not self._receiver:
            parameters.refuse(
                f"the parameter {parameters.receiver} is not bound; use the method of "
                "an object"
            )

        def call(*args: Any, **kwargs: Any) -> _T:
            context = kwargs.pop(_CONTEXT)
            agent, options = self._prepare(args, kwargs)
            del options["cancel"]  # it is cancelled with the run
            result: RunResult = context.agent(agent, **options)
            return self.value(result)

        functools.update_wrapper(call, self.__wrapped__)
        signature = parameters.signature
        own = [signature.parameters[name] for name in parameters.names]
        context = Parameter(_CONTEXT, Parameter.KEYWORD_ONLY, annotation=ToolContext)
        call.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*own, context]
        )
        return AgentTool(call)

    @overload
    def __get__(self, instance: None, owner: Any = None) -> LlmFunction[_P, _T]: ...

    @overload
    def __get__(
        self: LlmFunction[Concatenate[_S, _Q], _T], instance: _S, owner: Any = None
    ) -> LlmFunction[_Q, _T]: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self._bound(instance, owner)

    def _prepare(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Agent, dict[str, Any]]:
        """Return an agent for a call, and the arguments of its ``run()``."""
        arguments, options = self._bind(args, kwargs)
        parameters = self._parameters
        prompt = rendered(parameters.instruction, arguments, parameters.label)
        return self._maker.make(), {"prompt": prompt, "output": self._output, **options}


def llm_function(
    model: Model | str,
    *,
    tools: Iterable[Any] = (),
    repairs: int = REPAIRS,
    **settings: Unpack[AgentArguments],
) -> Callable[[Callable[_P, _T]], LlmFunction[_P, _T]]:
    """Have a model implement a function.

    The docstring is the instruction, the arguments are the data, and the response is
    converted to the return type: scalars, dataclasses, TypedDicts, ``msgspec.Struct``,
    pydantic models, lists, dicts and tuples of them, Optional, Literal, Enum. ``str``
    is the response as it is; ``None`` is for functions whose tools do all the work. The
    body is never run: write only the docstring.

    Every call also takes ``cancel=`` and ``timeout=``.

    :param model: a model, or the name of one, such as ``"openai:gpt-6-luna"``.
    :param tools: as for :class:`syncagent.Agent`.
    :param repairs: how often the model is sent the errors of a response that is not of
        the type, and asked for another.
    :param settings: others of :class:`syncagent.Agent`: ``limits``, ``system``,
        ``approve``, ``hooks`` and so on.
    :raises ConfigurationError: the function or a setting is invalid; the message names
        the parameter.
    """
    maker = AgentMaker(model, {"tools": tools, **settings})
    return lambda function: LlmFunction(function, maker, repairs)


def _read_output(parameters: Parameters, repairs: int) -> Output | None:
    """Return the output for the return type, ``None`` for a function without one."""
    hint = parameters.signature.return_annotation
    if hint is Parameter.empty:
        parameters.refuse(
            "it has no return type, which the response is converted to; add one, such "
            "as -> str"
        )
    hint = parameters.resolve(hint, "the return value")
    Output(str, repairs=repairs)  # an error in repairs is not the type's fault
    try:
        output = Output(str if hint is type(None) else hint, repairs=repairs)
    except ConfigurationError as error:
        parameters.refuse(f"the return type is not supported: {error}", error)
    return None if hint is type(None) else output
