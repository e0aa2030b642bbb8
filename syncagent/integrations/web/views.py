"""The endpoints, without a framework: a request's parts in, a reply out.

============================  ========================================================
``POST /runs``                :meth:`Views.start`, as JSON or as a stream
``GET /runs``                 :meth:`Views.list`
``GET /runs/<id>``            :meth:`Views.show`
``GET /runs/<id>/events``     :meth:`Views.events`
``POST /runs/<id>/cancel``    :meth:`Views.cancel`
``POST /runs/<id>/answers``   :meth:`Views.answer`
``GET /runs/<id>/timeline``   :meth:`Views.timeline`, as a page
============================  ========================================================
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ...agent import Agent
from ...exceptions import ConfigurationError
from .bodies import (
    AnswersReply,
    AnswersRequest,
    CancelReply,
    CancelRequest,
    ErrorReply,
    RunError,
    RunList,
    StartRequest,
    decode_body,
    encode_body,
)
from .recordings import TIMELINE_HEADERS
from .refusals import Refused
from .runs import Runs
from .sse import HEADERS, RunEventStream, parse_event_id
from .web_run import WebRun

__all__ = [
    "WebRequest",
    "MAX_BODY",
    "MakeAgent",
    "OwnerOf",
    "WebResponse",
    "Views",
    "refusal",
    "too_large",
]

_log = logging.getLogger("syncagent.web")

#: Returns the agent that a request is for; what it refuses, it raises as ``Refused``.
MakeAgent = Callable[[Any, StartRequest], Agent]
#: Returns whose a run is to be that this request begins; nothing if nobody may.
OwnerOf = Callable[[Any], "str | None"]

_JSON: Final = (
    ("Content-Type", "application/json"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
)
_STREAM: Final = "text/event-stream"
#: The largest body that is read, in bytes.
MAX_BODY: Final = 256 * 1024
#: The longest answer to "what is your id", so that none is looked up that is not one.
_LONGEST_ID: Final = 64


class WebRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a framework takes out of its request."""

    #: The framework's own, for ``authorize`` and the others.
    request: Any
    #: That of WSGI, so that a client that goes is noticed at once, if there is one.
    environ: Mapping[str, Any] | None = None
    body: bytes = b""
    #: Headers, empty if they are not there.
    content_type: str = ""
    accept: str = ""
    last_event_id: str = ""
    fetch_site: str = ""
    #: Is it an operator's, who is not the owner of what he ends?
    is_operator: bool = False

    @classmethod
    def of(
        cls,
        environ: Mapping[str, Any],
        body: bytes,
        request: Any = None,
        *,
        is_operator: bool = False,
    ) -> WebRequest:
        """Return the call that a WSGI request makes.

        :param request: the framework's own; else it is *environ*.
        """
        return cls(
            is_operator=is_operator,
            request=environ if request is None else request,
            environ=environ,
            body=body,
            content_type=environ.get("CONTENT_TYPE") or "",
            accept=environ.get("HTTP_ACCEPT") or "",
            last_event_id=environ.get("HTTP_LAST_EVENT_ID") or "",
            fetch_site=environ.get("HTTP_SEC_FETCH_SITE") or "",
        )


class WebResponse(msgspec.Struct, frozen=True):
    """What a framework makes a response of."""

    status: int
    headers: tuple[tuple[str, str], ...]
    #: A stream has to be closed, whatever happens to it.
    body: bytes | RunEventStream = b""


class Views:
    """The endpoints.

    :param runs: the runs.
    :param make_agent: returns the agent that a request is for.
    :param owner_of: returns whose a run is to be that a request begins. Without it
        nobody may begin one.
    :param max_body: the largest body that is accepted, in bytes.
    """

    def __init__(
        self,
        runs: Runs,
        make_agent: MakeAgent,
        *,
        owner_of: OwnerOf | None = None,
        max_body: int = MAX_BODY,
    ) -> None:
        for name, function in {"make_agent": make_agent, "owner_of": owner_of}.items():
            if function is not None and not callable(function):
                raise ConfigurationError(f"{name}= is a function; got {function!r:.80}")
        self.runs: Final = runs
        self.max_body: Final = max_body
        self._make_agent = make_agent
        self._owner_of = owner_of

    # -- endpoints -----------------------------------------------------------------

    def start(self, call: WebRequest) -> WebResponse:
        """Begin a run: 202 and where it is, or its events if that is what is accepted.

        Refused with 403, 413, 415, 422, 429 or 503.
        """
        return _replied(lambda: self._start(call))

    def list(self, call: WebRequest) -> WebResponse:
        """Show the runs that this caller may see."""
        return _replied(
            lambda: _json(
                200, RunList(tuple(r.view() for r in self.runs.list(call.request)))
            )
        )

    def show(self, call: WebRequest, id: str) -> WebResponse:
        """Show a run, or 404."""
        return _replied(lambda: _json(200, self._find(call, id).view()))

    def events(self, call: WebRequest, id: str) -> WebResponse:
        """Stream the events of a run after ``Last-Event-ID``.

        204 if there are none left and never will be, upon which browsers stop to ask.
        """
        return _replied(
            lambda: self._stream(self._find(call, id), call, call.last_event_id)
        )

    def cancel(self, call: WebRequest, id: str) -> WebResponse:
        """End a run: 202 if it was live, 409 if it had ended before, or 404."""
        return _replied(lambda: self._cancel(call, id))

    def answer(self, call: WebRequest, id: str) -> WebResponse:
        """Answer what a run asks, and say what became of each answer.

        200 if all were taken, 409 if one came too late, 422 if one makes no sense.
        """
        return _replied(lambda: self._answer(call, id))

    def timeline(self, call: WebRequest, id: str) -> WebResponse:
        """Show the timeline of a run as a page, or 404 if none was recorded."""
        return _replied(lambda: self._timeline(call, id))

    # -- how -----------------------------------------------------------------------

    def _start(self, call: WebRequest) -> WebResponse:
        self._check_post(call, needs_body=True)
        owner = self._owner(call)
        wanted = decode_body(call.body, StartRequest)
        if not wanted.prompt.strip():
            raise Refused(422, "invalid", "The prompt is empty.")
        agent = self._make_agent(call.request, wanted)
        run = self.runs.start(
            agent, wanted.prompt, owner=owner, conversation=wanted.conversation
        )
        if _STREAM in call.accept.lower():
            return self._stream(run, call, "")
        return _json(202, run.view())

    def _owner(self, call: WebRequest) -> str:
        if self._owner_of is None:
            _log.error("a request was refused, as Views() has no owner_of=")
            raise Refused(
                403,
                "not_set_up",
                "Nobody may begin a run here, as this application does not say whose "
                "it would be: give Views() a function owner_of(request).",
            )
        owner = self._owner_of(call.request)
        if owner is None or owner == "":
            raise Refused(403, "forbidden", "You may not begin a run.")
        return owner

    def _stream(self, run: WebRun, call: WebRequest, last_event_id: str) -> WebResponse:
        stream = self.runs.follow(
            run, after=parse_event_id(last_event_id), environ=call.environ
        )
        if stream.is_empty:
            return WebResponse(204, ())
        return WebResponse(200, (*HEADERS, ("X-Run-Id", run.id)), stream)

    def _find(self, call: WebRequest, id: str) -> WebRun:
        return self.runs.get(id if len(id) <= _LONGEST_ID else "", call.request)

    def _timeline(self, call: WebRequest, id: str) -> WebResponse:
        run = self._find(call, id)
        if run.recording is None:
            raise Refused(404, "not_recorded", "This run is not recorded.")
        return WebResponse(
            200, TIMELINE_HEADERS, run.recording.render(run.shown, run.error)
        )

    def _cancel(self, call: WebRequest, id: str) -> WebResponse:
        self._check_post(call)
        run = self._find(call, id)
        receipt = self.runs.cancel(
            run,
            decode_body(call.body, CancelRequest),
            origin="remote" if call.is_operator else "user",
        )
        reply = CancelReply(run.id, bool(receipt), str(run.handle.state))
        return _json(202 if receipt else 409, reply)

    def _answer(self, call: WebRequest, id: str) -> WebResponse:
        self._check_post(call, needs_body=True)
        run = self._find(call, id)
        answers = decode_body(call.body, AnswersRequest).answers
        fates = self.runs.answer(run, answers)
        status = 200
        if "over" in fates.values():
            status = 409
        if "refused" in fates.values():
            status = 422
        return _json(status, AnswersReply(fates))

    def _check_post(self, call: WebRequest, *, needs_body: bool = False) -> None:
        """Refuse what is too large, what is no JSON, and what another site sends."""
        if call.fetch_site.strip().lower() == "cross-site":
            raise Refused(403, "cross_site", "Another site may not do this.")
        if len(call.body) > self.max_body:
            raise too_large(self.max_body)
        kind = call.content_type.partition(";")[0].strip().lower()
        # A form of another site cannot send this kind without being asked first.
        if (call.body or needs_body) and kind != "application/json":
            raise Refused(
                415, "not_json", "The body has to be of type application/json."
            )


def too_large(limit: int) -> Refused:
    """Return what is said of a body that is larger than *limit* bytes."""
    return Refused(413, "too_large", f"The body is larger than {limit} bytes.")


def _replied(work: Callable[[], WebResponse]) -> WebResponse:
    """Do it, or say why not."""
    try:
        return work()
    except Refused as refused:
        return refusal(refused)


def refusal(refused: Refused) -> WebResponse:
    """Return the reply that says why not."""
    reply = _json(refused.status, ErrorReply(RunError(refused.code, refused.message)))
    if refused.retry_after is None:
        return reply
    wait = ("Retry-After", str(refused.retry_after))
    return msgspec.structs.replace(reply, headers=(*reply.headers, wait))


def _json(status: int, body: msgspec.Struct) -> WebResponse:
    return WebResponse(status, _JSON, encode_body(body))
