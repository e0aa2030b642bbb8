"""Functions that a model stands in for: typed in, typed out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from inspect import Parameter, Signature
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, cast, overload

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
from ..tools.context import ToolContext
from ..tools.tool import AnyTool, Tool
from .parameters import Parameters, rendered
from .stand_in import AgentMaker, StandIn

__all__ = ["LlmFunction", "llm_function"]

_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_S = TypeVar("_S")
_T = TypeVar("_T")

#: The parameter of a tool that is not for the model.
_CONTEXT: Final = "tool_context"


class LlmFunction(StandIn, Generic[_P, _T]):
    """A function whose body is a model; :func:`llm_function` makes it.

    Each call has an agent of its own: any number of threads may call it at once, and a
    tool of it may call it again.
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
        """Have the model answer, and return what it says as the type that it is to be.

        Cancellation: ends at once, wherever it waits, and raises ``RunCancelled``.

        :param cancel: an event or a token of yours that ends it; it is never cleared.
        :param timeout: seconds after which it is cancelled.
        :raises RunCancelled: it was cancelled; ``error.result`` is what there was.
        :raises LimitReached: a limit ended it.
        :raises OutputInvalid: the model does not answer with that type.
        :raises InterruptPending: somebody has to be asked, and there is nobody.
        :raises SyncAgentError: there is no answer.
        """
        agent, how = self._asked(args, kwargs)
        result = agent.run(**how)
        if result.handle is not None:  # whoever calls this waits for a value
            with result.handle as handle:
                # It ends with the run, which is still cancelled as it would have been.
                result = handle.result(timeout=None)
        return self.value(result)

    @overload
    def stream(self, *args: _P.args, **kwargs: _P.kwargs) -> RunStream: ...

    @overload
    def stream(
        self, *args: Any, cancel: Cancel | None, timeout: float | None = ..., **kw: Any
    ) -> RunStream: ...

    @overload
    def stream(
        self, *args: Any, timeout: float | None, cancel: Cancel | None = ..., **kw: Any
    ) -> RunStream: ...

    def stream(self, *args: Any, **kwargs: Any) -> RunStream:
        """Do the same, and return what happens, as it happens.

        Give ``stream.result`` to :meth:`value` for what a call would have returned.

        Cancellation: ends at once, wherever it waits; the last event says so.
        """
        agent, how = self._asked(args, kwargs)
        return agent.stream(**how)

    @overload
    def start(self, *args: _P.args, **kwargs: _P.kwargs) -> Handle: ...

    @overload
    def start(
        self, *args: Any, cancel: Cancel | None, timeout: float | None = ..., **kw: Any
    ) -> Handle: ...

    @overload
    def start(
        self, *args: Any, timeout: float | None, cancel: Cancel | None = ..., **kw: Any
    ) -> Handle: ...

    def start(self, *args: Any, **kwargs: Any) -> Handle:
        """Do the same in the background, on a daemon thread of its own.

        Give ``handle.result()`` to :meth:`value` for what a call would have returned.
        """
        agent, how = self._asked(args, kwargs)
        return agent.start(**how)

    def value(self, result: RunResult) -> _T:
        """Return the value that a run of this function has come to, as a call does.

        :param result: of :meth:`stream`, or of the handle of :meth:`start`.
        :raises RunCancelled: it was cancelled.
        :raises LimitReached: a limit ended it.
        :raises OutputInvalid: the model refused, or its answer was cut off.
        :raises InterruptPending: somebody has to be asked, and there is nobody.
        """
        _raise_unless_answered(result, self._parameters.label)
        return cast("_T", result.output)

    # -- more of it ----------------------------------------------------------------

    def using(self, **settings: Any) -> LlmFunction[_P, _T]:
        """Return the same with other settings: another model, for a test.

        :param settings: those of :func:`llm_function`.
        """
        repairs = settings.pop("repairs", None)
        other = self._changed(settings)
        if repairs is not None:
            other._output = _read_output(self._parameters, repairs)
        return other

    def as_tool(self) -> AnyTool:
        """Return a tool that calls this, for an agent; ``tools=[function]`` will do.

        It ends with the run that calls it, which is shown its events, counts what it
        uses, and is asked what it has to ask.

        :raises ConfigurationError: it is a method of no object.
        """
        if self._parameters.receiver is not None and not self._receiver:
            self._parameters.refuse(
                f"the parameter {self._parameters.receiver} is open; take the method "
                "of an object"
            )

        def call(*args: Any, **kwargs: Any) -> _T:
            context = kwargs.pop(_CONTEXT)
            agent, how = self._asked(args, kwargs)
            del how["cancel"]  # it is cancelled with the run
            result: RunResult = context.agent(agent, **how)
            return self.value(result)

        functools.update_wrapper(call, self.__wrapped__)
        call.__signature__ = self._tool_signature()  # type: ignore[attr-defined]
        return Tool(call)

    def _tool_signature(self) -> Signature:
        signature = self._parameters.signature
        own = [signature.parameters[name] for name in self._parameters.names]
        context = Parameter(_CONTEXT, Parameter.KEYWORD_ONLY, annotation=ToolContext)
        return signature.replace(parameters=[*own, context])

    @overload
    def __get__(self, instance: None, owner: Any = None) -> LlmFunction[_P, _T]: ...

    @overload
    def __get__(
        self: LlmFunction[Concatenate[_S, _Q], _T], instance: _S, owner: Any = None
    ) -> LlmFunction[_Q, _T]: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self._bound(instance, owner)

    def _asked(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Agent, dict[str, Any]]:
        """Return an agent for a call, and what to run it with."""
        given, how = self._given(args, kwargs)
        parameters = self._parameters
        prompt = rendered(parameters.instruction, given, parameters.label)
        return self._maker.make(), {"prompt": prompt, "output": self._output, **how}


def llm_function(
    model: Model | str,
    *,
    tools: Iterable[Any] = (),
    repairs: int = REPAIRS,
    **settings: Any,
) -> Callable[[Callable[_P, _T]], LlmFunction[_P, _T]]:
    """Have a model stand in for a function.

    The docstring is what the model is to do, the arguments are what it is given, and
    the return type is what it answers with: scalars, dataclasses, TypedDicts,
    ``msgspec.Struct``, pydantic models, lists, dicts and tuples of them, Optional,
    Literal, Enum. ``str`` is the answer as it is, ``None`` means that only what tools
    do counts. The body is never run: leave it at the docstring.

    Every call takes ``cancel=`` and ``timeout=`` beside the function's own parameters.

    :param model: a model, or the name of one, such as ``"openai:gpt-5-mini"``.
    :param tools: as for :class:`syncagent.Agent`.
    :param repairs: how often the model is told what is wrong with an answer that is not
        of the type, and asked for another.
    :param settings: others of :class:`syncagent.Agent`: ``limits``, ``system``,
        ``approve``, ``hooks`` and so on.
    :raises ConfigurationError: the function, or a setting, cannot work so; the message
        names the parameter.
    """
    maker = AgentMaker(model, {"tools": tools, **settings})
    return lambda function: LlmFunction(function, maker, repairs)


def _read_output(parameters: Parameters, repairs: int) -> Output | None:
    """Return what the answer is to be, nothing if that does not matter."""
    hint = parameters.signature.return_annotation
    if hint is Parameter.empty:
        parameters.refuse(
            "it has no return type, which is what the model answers with; write one, "
            "such as -> str"
        )
    hint = parameters.resolve(hint, "the return value")
    Output(str, repairs=repairs)  # what is wrong with repairs is not the type's fault
    try:
        output = Output(str if hint is type(None) else hint, repairs=repairs)
    except ConfigurationError as error:
        parameters.refuse(f"the return value has a type that cannot be: {error}", error)
    return None if hint is type(None) else output


def _raise_unless_answered(result: RunResult, label: str) -> None:
    """Raise what a call raises whose run did not come to an answer."""
    if result.stop_reason == "limit" and result.limit is not None:
        raise LimitReached(
            f"{label}: the limit on {result.limit.replace('_', ' ')} ended the call "
            "before there was an answer; allow more with limits=Limits(...)",
            result=result,
        )
    result.raise_for_status()
    if result.stop_reason == "backgrounded":
        raise ConfigurationError(
            f"{label}: the run goes on in the background, and has no value yet; wait "
            "for result.handle.result()"
        )
    if result.stop_reason == "interrupt":
        asked = ", ".join(getattr(each, "tool", each.id) for each in result.interrupts)
        raise InterruptPending(
            f"{label}: somebody has to be asked about {asked}, and there is nobody; "
            "give @llm_function approve=, authenticate= or ask=, or call .start() and "
            "answer with handle.answer()",
            result=result,
        )
    if result.stop_reason in ("refusal", "max_tokens"):
        raise OutputInvalid(
            f"{label}: {_why_not(result)}",
            result=result,
            text=result.text,
        )


def _why_not(result: RunResult) -> str:
    if result.stop_reason == "max_tokens":
        return (
            "the answer is cut off, as it is longer than the model may answer; give "
            "the model a larger max_tokens="
        )
    last = result.messages[-1] if result.messages else None
    words = last.refusal if isinstance(last, AssistantMessage) else ""
    return f"the model will not answer: {words or result.text or 'it says nothing'}"
