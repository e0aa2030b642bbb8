"""Every error of the package, as one tree.

::

    SyncAgentError(Exception)
    ├─ ConfigurationError(ValueError)    a setting or an argument cannot work
    │  ├─ InterruptOver()                the question is no longer open
    │  ├─ NoSuchRun(LookupError)         a store has no run with that id
    │  ├─ RecordingInvalid()             a recording cannot be read
    │  ├─ StateInvalid()                 a saved state cannot be used
    │  ├─ StateTaken()                   another caller has claimed a saved state
    │  └─ WrongThread(RuntimeError)      only the main thread can do this
    ├─ AgentBusy(RuntimeError)           the agent has a live run already
    ├─ CompactionFailed()                a conversation could not be shortened
    ├─ ConversationChanged(RuntimeError)  it has changed since it was read
    ├─ InterruptPending(RuntimeError)    the agent waits for answers
    ├─ MCPError()                        an MCP server could not be used
    │  ├─ MCPAuthRequired()              it wants a login
    │  ├─ MCPProtocolError()             it does not speak the protocol
    │  ├─ MCPRequestFailed()             it answered with an error
    │  ├─ MCPServerLost(ConnectionError)  it could not be reached, or has ended
    │  └─ MCPTimedOut(TimeoutError)      it did not answer in time
    ├─ RunFailed()                       a stored run ended with an error
    ├─ StoreUnavailable(OSError)         a store of runs cannot be reached now
    ├─ TooManyRuns(RuntimeError)         an owner has as many runs as allowed
    ├─ RunStopped()                      a run was stopped before its end
    │  ├─ RunCancelled()                 it was cancelled
    │  ├─ LimitReached()                 a limit ended it
    │  ├─ StoppedByProvider()            the provider ended it, irregularly
    │  └─ OutputInvalid(ValueError)      its output is not of the requested type
    ├─ ToolError()                       for tools: tell the model what is wrong
    │  └─ Declined()                     the user said no to a form
    ├─ ToolSourceFailed()                a source of tools cannot say which it has
    ├─ TransportError(OSError)           no complete response came
    │  ├─ ConnectionFailed(ConnectionError)   none began
    │  ├─ StreamBroken(ConnectionError)       it ended too early
    │  ├─ RequestTimeout(TimeoutError)        a wait was too long
    │  │  ├─ ConnectTimeout()                 for the connection
    │  │  ├─ SendTimeout()                    for the server to take the request
    │  │  ├─ HeadersTimeout()                 for the response to begin
    │  │  ├─ FirstEventTimeout()              for its first event
    │  │  ├─ StallTimeout()                   for the next event
    │  │  └─ TotalTimeout()                   for all of it, retries included
    │  ├─ RedirectRefused()                   the server points elsewhere
    │  └─ ResponseTooLarge()                  it is larger than allowed
    └─ ProviderError()                   the server responded with an error
       ├─ AuthenticationFailed()         it does not accept the key
       ├─ RateLimited()                  it has had too many requests
       ├─ ProviderUnavailable()          it cannot respond now
       ├─ RequestRejected()              it will never accept this request
       │  └─ ContextTooLong()            because the conversation is too long
       └─ ProtocolError()                its response makes no sense

    Cancelled(BaseException)             not an error: the signal that unwinds a run

Each class carries its data as attributes and survives pickling.
"""

from __future__ import annotations

from typing import Any, Literal

__all__ = [
    "AgentBusy",
    "AuthenticationFailed",
    "Cancelled",
    "CompactionFailed",
    "ConfigurationError",
    "ConnectTimeout",
    "ConnectionFailed",
    "ContextTooLong",
    "ConversationChanged",
    "Declined",
    "FirstEventTimeout",
    "HeadersTimeout",
    "InterruptOver",
    "InterruptPending",
    "LimitReached",
    "MCPAuthRequired",
    "MCPError",
    "MCPProtocolError",
    "MCPRequestFailed",
    "MCPServerLost",
    "MCPTimedOut",
    "NoSuchRun",
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
    "RunFailed",
    "RunStopped",
    "SendTimeout",
    "StallTimeout",
    "StateInvalid",
    "StateTaken",
    "StoppedByProvider",
    "StoreUnavailable",
    "StreamBroken",
    "SyncAgentError",
    "TooManyRuns",
    "ToolError",
    "ToolSourceFailed",
    "TotalTimeout",
    "TransportError",
    "WrongThread",
]


#: Who cancelled. ``lost`` is a worker that a store took the run away from; ``hook`` is
#: a hook that returned :class:`~syncagent.hooks.Stop`.
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
    "lost",
    "hook",
]


class SyncAgentError(Exception):
    """Base class of all errors that this package raises on purpose."""

    #: The usage of a model up to the error, a :class:`~syncagent.usage.Usage`.
    usage: Any = None
    #: The errors of the models that a :class:`~syncagent.Fallback` tried before.
    earlier_errors: tuple[Exception, ...] = ()
    #: True if the error ended a run that ``agent.resume()`` can go on with.
    can_resume: bool = False


class ConfigurationError(SyncAgentError, ValueError):
    """A setting or an argument cannot work as given."""


class InterruptOver(ConfigurationError):
    """The question was answered already, or its run has been resumed or has ended."""


class NoSuchRun(ConfigurationError, LookupError):
    """A store has no run with that id, or has forgotten it."""


class RecordingInvalid(ConfigurationError):
    """A file is not a recording, or cannot be read."""


class StateInvalid(ConfigurationError):
    """A saved state is damaged, from a newer version, or does not fit the tools."""


class StateTaken(ConfigurationError):
    """Another caller has claimed the saved state, and may have called its tools."""


class WrongThread(ConfigurationError, RuntimeError):
    """The call works on the main thread only, a rule of :mod:`signal`."""


class AgentBusy(SyncAgentError, RuntimeError):
    """The agent has a live run already.

    :param cause: ``inside``: the caller is part of that run, such as a tool of it.
        ``unread``: a stream or a driver that nothing reads at the moment. ``thread``:
        another thread is at work on it. ``background``: a handle is. Else empty.
    :param run_id: the id of that run.
    :param thread: the name of its thread.
    """

    def __init__(
        self,
        message: str = "",
        *,
        cause: Literal["", "inside", "unread", "thread", "background"] = "",
        run_id: str = "",
        thread: str = "",
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.run_id = run_id
        self.thread = thread


class CompactionFailed(SyncAgentError):
    """A conversation could not be made short enough for the model."""


class ConversationChanged(SyncAgentError, RuntimeError):
    """Another caller has changed the conversation since it was read; read it again."""


class InterruptPending(SyncAgentError, RuntimeError):
    """The agent waits for answers, and can do nothing else until it has them.

    :param result: the :class:`~syncagent.result.RunResult` so far, if the call itself
        led to the questions.
    """

    def __init__(self, message: str = "", *, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class MCPError(SyncAgentError):
    """An MCP server could not be used.

    :param server: its name, as the user gave it.
    """

    def __init__(self, message: str = "", *, server: str = "") -> None:
        super().__init__(message)
        self.server = server


class MCPAuthRequired(MCPError):
    """The server wants a login, and no one here can log in."""


class MCPProtocolError(MCPError):
    """The server does not speak the protocol, or no version of it that we speak."""


class MCPRequestFailed(MCPError):
    """The server answered a request with an error.

    :param code: the JSON-RPC code; servers disagree about most of them.
    :param data: what the server has added, decoded from JSON.
    """

    def __init__(
        self, message: str = "", *, server: str = "", code: int = 0, data: Any = None
    ) -> None:
        super().__init__(message, server=server)
        self.code = code
        self.data = data


class MCPServerLost(MCPError, ConnectionError):
    """The server could not be started or reached, or it ended before it answered.

    In the last case it is unknown how much of the work it has done.
    """

    #: False if the server has not seen the request, so that it has no effects.
    started: bool = True


class MCPTimedOut(MCPError, TimeoutError):
    """The server did not answer in time; it was asked to stop."""


class RunFailed(SyncAgentError):
    """A run of a store ended with an error, in this process or another."""


class StoreUnavailable(SyncAgentError, OSError):
    """A store of runs cannot be reached now, so it is not known whether it has done it.

    Doing it again is safe.
    """


class TooManyRuns(SyncAgentError, RuntimeError):
    """The owner has as many live runs in a store as allowed."""


class RunStopped(SyncAgentError):
    """A run was stopped before its end.

    :param result: the :class:`~syncagent.result.RunResult` so far.
    """

    def __init__(self, message: str = "", *, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class RunCancelled(RunStopped):
    """The run was cancelled; ``result.cancellation`` tells by whom, and where."""


class LimitReached(RunStopped):
    """A limit ended the run; ``result.limit`` names it."""


class StoppedByProvider(RunStopped):
    """The provider ended a response irregularly; ``result.raw_stop_reason`` is why."""


class OutputInvalid(RunStopped, ValueError):
    """The model's output is not of the requested type.

    :param text: the last response.
    :param attempts: how many responses there were.
    :param problem: the mistake in the last one, a
        :class:`~syncagent.schemas.ShapeError` with ``path``, ``expected`` and ``got``;
        ``None`` if the model refused, or was cut off.
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
    """Raise it in a tool to send the model this message."""


class Declined(ToolError):
    """The user said no to the form that ``ctx.ask(form=...)`` showed."""


class ToolSourceFailed(SyncAgentError):
    """A source of tools raised an error, so that a turn could not begin.

    :param source: the name of the source.
    """

    def __init__(self, message: str = "", *, source: str = "") -> None:
        super().__init__(message)
        self.source = source


class TransportError(SyncAgentError, OSError):
    """No complete response came.

    :param message: the event, its cause, and a remedy.
    :param phase: the phase of the call.
    :param url: the address, without query and credentials.
    :param retryable: true if the same request may succeed later.
    :param provider: the provider of the model, such as ``openai``; empty without a
        model.
    """

    def __init__(
        self,
        message: str = "",
        *,
        phase: str = "",
        url: str = "",
        retryable: bool = False,
        provider: str = "",
    ) -> None:
        super().__init__(message)
        self.phase = phase
        self.url = url
        self.retryable = retryable
        self.provider = provider


class ConnectionFailed(TransportError, ConnectionError):
    """There was no connection, or it broke before a response began."""


class StreamBroken(TransportError, ConnectionError):
    """The response ended before it was complete; its events so far were delivered."""


class RequestTimeout(TransportError, TimeoutError):
    """A wait took longer than its timeout; its phase says which."""


class ConnectTimeout(RequestTimeout):
    """There was no connection in time: name look-up, TCP, proxy and TLS together."""


class SendTimeout(RequestTimeout):
    """The server did not take the request in time."""


class HeadersTimeout(RequestTimeout):
    """The response did not begin in time."""


class FirstEventTimeout(RequestTimeout):
    """The first event did not arrive in time."""


class StallTimeout(RequestTimeout):
    """The next event, or piece of a response without events, did not arrive in time.

    Comments do not count as events.
    """


class TotalTimeout(RequestTimeout):
    """The call as a whole, retries and their waits included, took too long."""


class RedirectRefused(TransportError):
    """The server points elsewhere; keys and prompts are not sent there.

    :param location: the host that it points to.
    """

    def __init__(
        self,
        message: str = "",
        *,
        location: str = "",
        phase: str = "",
        url: str = "",
        provider: str = "",
    ) -> None:
        super().__init__(message, phase=phase, url=url, provider=provider)
        self.location = location


class ResponseTooLarge(TransportError):
    """The response, or one event of it, is larger than allowed."""


class ProviderError(SyncAgentError):
    """The server responded with an error.

    :param message: the event, its cause, and a remedy.
    :param status: the HTTP status, 200 for an error inside a response.
    :param url: the address, without query and credentials.
    :param request_id: the server's own name for the request, for its support.
    :param retry_after: seconds that the server asks to wait.
    :param body: the beginning of the server's text, without keys.
    :param retryable: true if the same request may succeed later.
    :param provider: the provider of the model, such as ``openai``; empty without a
        model.
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
        provider: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.url = url
        self.request_id = request_id
        self.retry_after = retry_after
        self.body = body
        self.retryable = retryable
        self.provider = provider


class AuthenticationFailed(ProviderError):
    """The server does not accept the credentials."""


class RateLimited(ProviderError):
    """The server has had too many requests; ``retry_after`` says how long to wait."""


class ProviderUnavailable(ProviderError):
    """The server cannot respond now, but may later."""


class RequestRejected(ProviderError):
    """The server will not accept this request, however often it is sent."""


class ContextTooLong(RequestRejected):
    """The conversation is longer than the model can take."""


class ProtocolError(ProviderError):
    """The server's response makes no sense."""


class Cancelled(BaseException):
    """Unwinds cancelled work; an agent's ``run()`` turns it into a result.

    It is a :class:`BaseException`, so that ``except Exception`` in a tool does not
    swallow the end of its run.

    :param reason: the canceller's text, possibly empty.
    :param origin: who cancelled.
    """

    def __init__(self, reason: str = "", origin: Origin = "user") -> None:
        super().__init__(reason, origin)
        self.reason = reason
        self.origin = origin

    #: The usage of a model up to the cancel, a :class:`~syncagent.usage.Usage`.
    usage: Any = None
    #: The result so far, if the cancelled work could keep one.
    partial: Any = None
    #: False if the work had not begun, so that it has no effects.
    started: bool = True

    def __str__(self) -> str:
        reason = f": {self.reason}" if len(self.reason) else ""
        return f"cancelled (origin {self.origin}){reason}"
