"""Every error of the package, as one tree.

::

    SyncAgentError(Exception)
    ├─ ConfigurationError(ValueError)    a setting or an argument cannot work
    │  ├─ InterruptOver()                what is answered is over
    │  ├─ RecordingInvalid()             a recording cannot be read
    │  ├─ StateInvalid()                 a saved state cannot be used
    │  └─ WrongThread(RuntimeError)      only the main thread can do this
    ├─ AgentBusy(RuntimeError)           the agent has a live run already
    ├─ InterruptPending(RuntimeError)    the agent waits for answers
    ├─ RunStopped()                      a run did not come to its end
    │  ├─ RunCancelled()                 it was cancelled
    │  ├─ LimitReached()                 a limit ended it
    │  └─ OutputInvalid(ValueError)      its answer is not of the type asked for
    ├─ ToolError()                       for tools: tell the model what is wrong
    ├─ TransportError(OSError)           no complete answer came
    │  ├─ ConnectionFailed(ConnectionError)   none began
    │  ├─ StreamBroken(ConnectionError)       it ended before its end
    │  ├─ RequestTimeout(TimeoutError)        a wait was too long
    │  │  ├─ ConnectTimeout()                 for the connection
    │  │  ├─ SendTimeout()                    for the server to take the request
    │  │  ├─ HeadersTimeout()                 for the answer to begin
    │  │  ├─ FirstEventTimeout()              for its first event
    │  │  ├─ StallTimeout()                   for the next event
    │  │  └─ TotalTimeout()                   for all of it, retries included
    │  ├─ RedirectRefused()                   it is said to be elsewhere
    │  └─ ResponseTooLarge()                  it is larger than allowed
    └─ ProviderError()                   the server answered, with an error
       ├─ AuthenticationFailed()         it does not accept the key
       ├─ RateLimited()                  it has had too many requests
       ├─ ProviderUnavailable()          it cannot answer now
       ├─ RequestRejected()              it will never accept this request
       │  └─ ContextTooLong()            because the conversation is too long
       └─ ProtocolError()                it said something that makes no sense

    Cancelled(BaseException)             not an error: the signal that unwinds a run

Each class carries its data as attributes and survives pickling.
"""

from __future__ import annotations

from typing import Any, Literal

__all__ = [
    "AgentBusy",
    "AuthenticationFailed",
    "Cancelled",
    "ConfigurationError",
    "ConnectTimeout",
    "ConnectionFailed",
    "ContextTooLong",
    "FirstEventTimeout",
    "HeadersTimeout",
    "InterruptOver",
    "InterruptPending",
    "LimitReached",
    "Origin",
    "OutputInvalid",
    "ProtocolError",
    "ProviderError",
    "ProviderUnavailable",
    "RateLimited",
    "RecordingInvalid",
    "RedirectRefused",
    "RequestRejected",
    "RequestTimeout",
    "ResponseTooLarge",
    "RunCancelled",
    "RunStopped",
    "SendTimeout",
    "StallTimeout",
    "StateInvalid",
    "StreamBroken",
    "SyncAgentError",
    "ToolError",
    "TotalTimeout",
    "TransportError",
    "WrongThread",
]


#: Who cancelled.
Origin = Literal[
    "user",
    "deadline",
    "limit",
    "parent",
    "closed",
    "signal",
    "disconnect",
    "shutdown",
    "remote",
]


class SyncAgentError(Exception):
    """Anything that this package raises on purpose."""

    #: What a model had used up to there, a :class:`~syncagent.usage.Usage`.
    usage: Any = None


class ConfigurationError(SyncAgentError, ValueError):
    """A setting or an argument cannot work as given."""


class InterruptOver(ConfigurationError):
    """What is answered was answered already, or its run has gone on or ended."""


class RecordingInvalid(ConfigurationError):
    """A recording cannot be read, or is none."""


class StateInvalid(ConfigurationError):
    """A saved state is damaged, from a newer version, or does not fit the tools."""


class WrongThread(ConfigurationError, RuntimeError):
    """The call is possible on the main thread only (:mod:`signal` says so)."""


class AgentBusy(SyncAgentError, RuntimeError):
    """The agent has a live run already."""


class InterruptPending(SyncAgentError, RuntimeError):
    """The agent waits for answers, and cannot do anything else meanwhile.

    :param result: what there is, a :class:`~syncagent.result.RunResult`, if it is the
        call itself that has to wait.
    """

    def __init__(self, message: str = "", *, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class RunStopped(SyncAgentError):
    """A run did not come to its end.

    :param result: what there is, a :class:`~syncagent.result.RunResult`.
    """

    def __init__(self, message: str = "", *, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class RunCancelled(RunStopped):
    """The run was cancelled; ``result.cancellation`` tells by whom, and where."""


class LimitReached(RunStopped):
    """A limit ended the run; ``result.limit`` names it."""


class OutputInvalid(RunStopped, ValueError):
    """The model's answer is not of the type that was asked for.

    :param text: the last answer.
    :param attempts: how many there were.
    :param problem: what is wrong with the last, a
        :class:`~syncagent.schemas.ShapeError` with ``path``, ``expected`` and ``got``;
        nothing if the model refused, or was cut off.
    """

    def __init__(
        self,
        message: str = "",
        *,
        result: Any = None,
        text: str = "",
        attempts: int = 0,
        problem: Any = None,
    ) -> None:
        super().__init__(message, result=result)
        self.text = text
        self.attempts = attempts
        self.problem = problem


class ToolError(SyncAgentError):
    """Raise it in a tool to tell the model, in these words, what is wrong."""


class TransportError(SyncAgentError, OSError):
    """No complete answer came.

    :param message: what happened, why, and what to do.
    :param phase: what the call was doing.
    :param url: where to, without query and credentials.
    :param retryable: may the same request succeed later?
    """

    def __init__(
        self,
        message: str = "",
        *,
        phase: str = "",
        url: str = "",
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.phase = phase
        self.url = url
        self.retryable = retryable


class ConnectionFailed(TransportError, ConnectionError):
    """There was no connection, or it broke before an answer began."""


class StreamBroken(TransportError, ConnectionError):
    """The answer ended without being complete; what came of it was delivered."""


class RequestTimeout(TransportError, TimeoutError):
    """A wait took longer than its timeout; its phase says which."""


class ConnectTimeout(RequestTimeout):
    """There was no connection in time: name look-up, TCP, proxy and TLS together."""


class SendTimeout(RequestTimeout):
    """The server did not take the request in time."""


class HeadersTimeout(RequestTimeout):
    """The answer did not begin in time."""


class FirstEventTimeout(RequestTimeout):
    """The first event was not in time."""


class StallTimeout(RequestTimeout):
    """The next event, or piece of an answer without events, was not in time.

    Comments are no events.
    """


class TotalTimeout(RequestTimeout):
    """The call as a whole, retries and their waits included, took too long."""


class RedirectRefused(TransportError):
    """The server points elsewhere; keys and prompts are not sent after that.

    :param location: the host that it points to.
    """

    def __init__(
        self,
        message: str = "",
        *,
        location: str = "",
        phase: str = "",
        url: str = "",
    ) -> None:
        super().__init__(message, phase=phase, url=url)
        self.location = location


class ResponseTooLarge(TransportError):
    """The answer, or one event of it, is larger than allowed."""


class ProviderError(SyncAgentError):
    """The server answered with an error.

    :param message: what happened, why, and what to do.
    :param status: the HTTP status, 200 for an error inside an answer.
    :param url: where it came from, without query and credentials.
    :param request_id: the server's own name for the request, for its support.
    :param retry_after: seconds that the server asks to wait.
    :param body: the beginning of what it said, without keys.
    :param retryable: may the same request succeed later?
    """

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        url: str = "",
        request_id: str | None = None,
        retry_after: float | None = None,
        body: str = "",
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.url = url
        self.request_id = request_id
        self.retry_after = retry_after
        self.body = body
        self.retryable = retryable


class AuthenticationFailed(ProviderError):
    """The server does not accept the credentials."""


class RateLimited(ProviderError):
    """The server has had too many requests; ``retry_after`` says how long to wait."""


class ProviderUnavailable(ProviderError):
    """The server cannot answer now, and may later."""


class RequestRejected(ProviderError):
    """The server will not accept this request, however often it is sent."""


class ContextTooLong(RequestRejected):
    """The conversation is longer than the model can take."""


class ProtocolError(ProviderError):
    """The server said something that makes no sense as an answer."""


class Cancelled(BaseException):
    """Unwind what was cancelled; an agent's ``run()`` makes a result of it.

    It is a :class:`BaseException`, so that ``except Exception`` in a tool does not
    swallow the end of its run.

    :param reason: what the canceller said, possibly nothing.
    :param origin: who cancelled.
    """

    def __init__(self, reason: str = "", origin: Origin = "user") -> None:
        super().__init__(reason, origin)
        self.reason = reason
        self.origin = origin

    #: What a model had used when it was cancelled, a :class:`~syncagent.usage.Usage`.
    usage: Any = None
    #: What there was by then, if whoever was cancelled could keep it.
    partial: Any = None

    def __str__(self) -> str:
        said = f": {self.reason}" if len(self.reason) else ""
        return f"cancelled (origin {self.origin}){said}"
