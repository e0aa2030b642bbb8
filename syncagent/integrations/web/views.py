"""The endpoints, without a framework: a request goes in, a response comes out.

============================  ========================================================
``POST /runs``                :meth:`Views.start`, as JSON or as a stream
``GET /runs``                 :meth:`Views.list`
``GET /runs/<id>``            :meth:`Views.show`
``GET /runs/<id>/events``     :meth:`Views.events`
``POST /runs/<id>/cancel``    :meth:`Views.cancel`
``POST /runs/<id>/answers``   :meth:`Views.answer`
``GET /runs/<id>/timeline``   :meth:`Views.timeline`, as a page
============================  ========================================================

With a store also these. An id of a conversation is any text, percent-encoded.

=================================  ===================================================
``GET /conversations``             :meth:`Views.conversations`
``GET /conversations/<id>``        :meth:`Views.conversation`
``POST /conversations/<id>/fork``  :meth:`Views.fork`
``POST .../<id>/delete``           :meth:`Views.delete`
``GET /inbox``                     :meth:`Views.inbox`
``GET /audit``                     :meth:`Views.audit`
=================================  ===================================================
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec

import msgspec

from ...agent import Agent
from ...exceptions import ConfigurationError
from .access import OwnerOf, find_owner
from .bodies import (
    AnswersRequest,
    CancelCallRequest,
    CancelCallResponse,
    CancelRequest,
    CancelResponse,
    DeleteRequest,
    ErrorResponse,
    ForkRequest,
    RunError,
    RunList,
    StartRequest,
    decode_body,
    encode_body,
)
from .deployment import warn_about_server
from .disconnect import disconnect_probe
from .errors import Refused, no_owners, no_store, no_such_run_here, too_large
from .followed import FollowedRun, WebRuns
from .inbox import check_approvers
from .kept_bodies import AuditList, ConversationList, DeleteResponse, InboxList
from .origins import TrustedOrigins
from .recordings import TIMELINE_HEADERS
from .runs import Runs
from .sse import HEADERS, parse_event_id
from .stored_runs import StoredRuns
from .streams import ResponseStream

__all__ = [
    "ApproversOf",
    "MAX_BODY",
    "MakeAgent",
    "OwnerOf",
    "Views",
    "WebRequest",
    "WebResponse",
    "error_response",
]

_P = ParamSpec("_P")

#: Returns the agent for a request, or raises ``Refused``.
MakeAgent = Callable[[Any, StartRequest], Agent]
#: Returns the people and groups that the person behind a request answers for.
ApproversOf = Callable[[Any], Iterable[str]]

_JSON: Final = (
    ("Content-Type", "application/json"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
)
_STREAM: Final = "text/event-stream"
#: The default limit of request bodies, in bytes.
MAX_BODY: Final = 256 * 1024
#: Characters. Longer ids are not looked up.
_LONGEST_ID: Final = 64


class WebRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an HTTP request that the views need."""

    #: The framework's own request, for ``authorize``, ``owner_of`` and ``make_agent``.
    original: Any
    #: The WSGI environ, if there is one, to notice at once when the client leaves.
    environ: Mapping[str, Any] | None = None
    body: bytes = b""
    #: Headers, empty if they are missing.
    content_type: str = ""
    accept: str = ""
    last_event_id: str = ""
    fetch_site: str = ""
    origin: str = ""
    host: str = ""
    #: True for an operator, who cancels runs of other owners.
    is_operator: bool = False

    @classmethod
    def of(
        cls,
        environ: Mapping[str, Any],
        body: bytes,
        original: Any = None,
        *,
        is_operator: bool = False,
    ) -> WebRequest:
        """Return the request of a WSGI environ.

        :param original: the framework's own request; by default *environ*.
        """
        return cls(
            is_operator=is_operator,
            original=environ if original is None else original,
            environ=environ,
            body=body,
            content_type=environ.get("CONTENT_TYPE") or "",
            accept=environ.get("HTTP_ACCEPT") or "",
            last_event_id=environ.get("HTTP_LAST_EVENT_ID") or "",
            fetch_site=environ.get("HTTP_SEC_FETCH_SITE") or "",
            origin=environ.get("HTTP_ORIGIN") or "",
            host=environ.get("HTTP_HOST") or "",
        )


class WebResponse(msgspec.Struct, frozen=True):
    """An HTTP response, for a framework to send."""

    status: int
    headers: tuple[tuple[str, str], ...]
    #: The framework has to close a stream, whatever happens.
    body: bytes | ResponseStream = b""


def error_response(error: Refused) -> WebResponse:
    """Return the response for an error."""
    body = ErrorResponse(RunError(error.code, error.message))
    response = _json(error.status, body)
    if error.retry_after is None:
        return response
    retry_after = ("Retry-After", str(error.retry_after))
    return msgspec.structs.replace(response, headers=(*response.headers, retry_after))


def _json(status: int, body: msgspec.Struct) -> WebResponse:
    return WebResponse(status, _JSON, encode_body(body))


def _endpoint(
    view: Callable[Concatenate[Views, _P], WebResponse],
) -> Callable[Concatenate[Views, _P], WebResponse]:
    """Make *view* return an error response where it raises ``Refused``."""

    @wraps(view)
    def endpoint(views: Views, /, *args: _P.args, **kwargs: _P.kwargs) -> WebResponse:
        try:
            return view(views, *args, **kwargs)
        except Refused as error:
            return error_response(error)

    return endpoint


def _start_here(
    runs: Runs, make_agent: MakeAgent, request: Any, body: StartRequest, owner: str
) -> FollowedRun:
    if body.version is not None:
        raise Refused(422, "invalid", "A version needs an application with a store.")
    agent = make_agent(request, body)
    return runs.start(agent, body.prompt, owner=owner, conversation=body.conversation)


class Views:
    """The endpoints.

    :param runs: the runs of this process, or those of a store.
    :param make_agent: returns the agent for a request. A store has its own instead.
    :param owner_of: returns the owner of the run a request starts, such as the id of
        the user, or None to refuse it. Without it no run can be started.
    :param approvers_of: returns the names of the people and groups that the person
        behind a request answers for; by default only what *owner_of* returns. Questions
        that the ``approver_of`` of a store gives to them are theirs to answer.
    :param max_body: the largest request body, in bytes.
    :param trusted_origins: other origins whose pages may start, answer and cancel runs,
        such as ``https://app.example.com`` or ``https://*.example.com``.
    """

    def __init__(
        self,
        runs: Runs | StoredRuns,
        make_agent: MakeAgent | None = None,
        *,
        owner_of: OwnerOf | None = None,
        approvers_of: ApproversOf | None = None,
        max_body: int = MAX_BODY,
        trusted_origins: Iterable[str] = (),
    ) -> None:
        for name, function in {
            "make_agent": make_agent,
            "owner_of": owner_of,
            "approvers_of": approvers_of,
        }.items():
            if function is not None and not callable(function):
                raise ConfigurationError(
                    f"{name} must be a function; got {function!r:.80}"
                )
        self.runs: Final[WebRuns] = runs
        self._stored: Final = None if isinstance(runs, Runs) else runs
        self._start_run: Callable[[Any, StartRequest, str], FollowedRun]
        if not isinstance(runs, Runs):
            if make_agent is not None:
                raise ConfigurationError("a store has a make_agent of its own")
            self._start_run = lambda request, body, owner: runs.submit(
                body, owner=owner
            )
        elif make_agent is None:
            raise ConfigurationError(
                "Views() needs make_agent, a function(request, start) that returns an "
                "Agent"
            )
        else:
            self._start_run = partial(_start_here, runs, make_agent)
        self.max_body: Final = max_body
        self._owner_of = owner_of
        self._approvers_of = approvers_of
        self._trusted_origins = TrustedOrigins(trusted_origins)

    @_endpoint
    def start(self, request: WebRequest) -> WebResponse:
        """Start a run: 202 and the run, or its events if the client accepts a stream.

        Refused with 403, 413, 415, 422, 429 or 503.
        """
        self._check_post(request, needs_body=True)
        self.runs.access.check_set_up()
        owner = self.find_starter(request.original)
        body = decode_body(request.body, StartRequest)
        if not body.prompt.strip():
            raise Refused(422, "invalid", "The prompt is empty.")
        warn_about_server(request.environ, has_store=self.runs.has_store)
        is_stream = _STREAM in request.accept.lower()
        if is_stream:
            self.runs.check_followers(owner)
        run = self._start_run(request.original, body, owner)
        self.runs.access.check_starter(request.original, run)
        if is_stream:
            try:
                return self._stream(run, request, "")
            except Refused as error:  # another stream was opened in between
                self.runs.cancel(run, CancelRequest(error.message), origin="limit")
                raise
        return _json(202, run.view())

    @_endpoint
    def list(self, request: WebRequest) -> WebResponse:
        """Return the runs that this client may see."""
        runs = self.runs.list(request.original, owner=self._person_of(request))
        return _json(200, RunList(tuple(run.summary() for run in runs)))

    @_endpoint
    def show(self, request: WebRequest, id: str) -> WebResponse:
        """Return a run, or 404."""
        return _json(200, self._find_run(request, id).view())

    @_endpoint
    def events(self, request: WebRequest, id: str) -> WebResponse:
        """Stream the events of a run after ``Last-Event-ID``.

        204 if the client has seen the end, which tells browsers to stop reconnecting.
        """
        run = self._find_run(request, id)
        return self._stream(run, request, request.last_event_id)

    @_endpoint
    def cancel(self, request: WebRequest, id: str) -> WebResponse:
        """Cancel a run: 202 if it was live, 409 if it had already ended, or 404."""
        self._check_post(request)
        run = self._find_run(request, id)
        receipt = self.runs.cancel(
            run,
            decode_body(request.body, CancelRequest),
            origin="remote" if request.is_operator else "user",
            by="operator" if request.is_operator else self._person_of(request) or "",
        )
        body = CancelResponse(run.id, bool(receipt), run.state)
        return _json(202 if receipt else 409, body)

    @_endpoint
    def cancel_call(self, request: WebRequest, id: str, call_id: str) -> WebResponse:
        """Stop one tool call: 202 if it was running, 409 if it was not, or 404.

        Also 409, with the code ``unsupported``, for a run in a store.
        """
        self._check_post(request)
        run = self._find_run(request, id)
        body = decode_body(request.body, CancelCallRequest)
        receipt = self.runs.cancel_call(run, call_id, body)
        response = CancelCallResponse(run.id, call_id, bool(receipt))
        return _json(202 if receipt else 409, response)

    @_endpoint
    def answer(self, request: WebRequest, id: str) -> WebResponse:
        """Answer questions of a run, and return the status of each answer.

        200 if all were taken, 409 if one came too late, 422 if one was refused; 400 if
        changed arguments are not valid JSON, 403 if changes are not allowed.
        """
        self._check_post(request, needs_body=True)
        person = self._person_of(request) or ""
        if self._stored is None:
            run = self._find_run(request, id)
            answers = decode_body(request.body, AnswersRequest).answers
            response = self.runs.answer(run, answers)
        else:
            # Another person than the owner may be asked, who does not see the run.
            answers = decode_body(request.body, AnswersRequest).answers
            found, approvers = self._stored.inbox.find(
                id if len(id) <= _LONGEST_ID else "",
                request.original,
                answers,
                self._names_of(request, person),
            )
            response = self._stored.answer(
                found, answers, by=person, approvers=approvers
            )
        status = 200
        if "over" in response.answers.values():
            status = 409
        if "refused" in response.answers.values():
            status = 422
        return _json(status, response)

    @_endpoint
    def timeline(self, request: WebRequest, id: str) -> WebResponse:
        """Return the timeline of a run as a page, or 404 if it was not recorded."""
        run = self._find_run(request, id)
        if run.recording is None:
            raise Refused(404, "not_recorded", "This run is not recorded.")
        page = run.recording.render(run.public_event, run.error)
        return WebResponse(200, TIMELINE_HEADERS, page)

    # -- with a store --------------------------------------------------------------

    @_endpoint
    def conversations(self, request: WebRequest) -> WebResponse:
        """Return the conversations of this client, last changed first."""
        stored, person = self._find_stored(request)
        return _json(200, ConversationList(stored.conversations.list(person)))

    @_endpoint
    def conversation(self, request: WebRequest, id: str) -> WebResponse:
        """Return a conversation with its messages, or 404."""
        stored, person = self._find_stored(request)
        return _json(200, stored.conversations.show(id, person))

    @_endpoint
    def fork(self, request: WebRequest, id: str) -> WebResponse:
        """Begin a conversation with the messages of another one: 201, or 404."""
        self._check_post(request)
        stored, person = self._find_stored(request)
        body = decode_body(request.body, ForkRequest)
        return _json(201, stored.conversations.fork(id, person, body))

    @_endpoint
    def delete(self, request: WebRequest, id: str) -> WebResponse:
        """Delete a conversation with its runs; a live one ends. 200, or 404."""
        self._check_post(request)
        stored, person = self._find_stored(request)
        decode_body(request.body, DeleteRequest)
        return _json(200, DeleteResponse(id, stored.conversations.delete(id, person)))

    @_endpoint
    def inbox(self, request: WebRequest) -> WebResponse:
        """Return the questions that wait for this person, on all hosts."""
        stored, person = self._find_stored(request)
        names = self._names_of(request, person)
        return _json(200, InboxList(stored.inbox.list(request.original, person, names)))

    @_endpoint
    def audit(self, request: WebRequest) -> WebResponse:
        """Return closed questions: those of this person's runs, and those put to it."""
        stored, person = self._find_stored(request)
        names = self._names_of(request, person)
        return _json(200, AuditList(stored.inbox.audit(person, names)))

    # -- steps of the endpoints ----------------------------------------------------

    def find_starter(self, request: Any) -> str:
        """Return the owner of the runs that the client of a request may start.

        :param request: the framework's own request.
        :raises Refused: the client may not start any, or there is no ``owner_of``.
        """
        if self._owner_of is None:
            raise no_owners()
        owner = find_owner(self._owner_of, request)
        if owner is None:
            raise Refused(403, "forbidden", "You may not start a run.")
        return owner

    def _find_stored(self, request: WebRequest) -> tuple[StoredRuns, str]:
        """Return the runs of the store, and the person behind a request.

        :raises Refused: there is no store, or the person is not known.
        """
        if self._stored is None:
            raise no_store()
        self._stored.access.check_set_up()
        person = find_owner(self._owner_of, request.original)
        if person is None:
            raise Refused(403, "forbidden", "You may not see conversations.")
        return self._stored, person

    def _names_of(self, request: WebRequest, person: str) -> tuple[str, ...]:
        """Return the people and groups that the person behind a request answers for."""
        if self._approvers_of is None or request.is_operator:
            return (person,) if person else ()
        return check_approvers(self._approvers_of(request.original))

    def _person_of(self, request: WebRequest) -> str | None:
        """Return the owner of runs that this client would start, for a store."""
        if request.is_operator or not self.runs.has_store:
            return None
        return find_owner(self._owner_of, request.original)

    def _stream(
        self, run: FollowedRun, request: WebRequest, last_event_id: str
    ) -> WebResponse:
        stream = self.runs.follow(
            run, after=parse_event_id(last_event_id), environ=request.environ
        )
        if stream.is_empty:
            return WebResponse(204, ())
        return WebResponse(200, (*HEADERS, ("X-Run-Id", run.id)), stream)

    def _find_run(self, request: WebRequest, id: str) -> FollowedRun:
        """Return a run that this client may see.

        :raises Refused: this process has no such run, or the client may not see it.
        """
        try:
            return self.runs.get(id if len(id) <= _LONGEST_ID else "", request.original)
        except Refused as error:
            environ = request.environ
            # ASGI servers do not tell whether they have several processes.
            if environ is None or not environ.get("wsgi.multiprocess", True):
                raise
            if error.status != 404 or self.runs.has_store:
                raise
            if environ.get("SERVER_PROTOCOL") in ("HTTP/1.0", "HTTP/1.1"):
                # A kept connection would lead back here. The server closes this one
                # after the response, as if the client had sent its last request.
                disconnect_probe(environ).shut_down(socket.SHUT_RD)
            raise no_such_run_here() from None

    def _check_post(self, request: WebRequest, *, needs_body: bool = False) -> None:
        """Refuse requests from other origins, large bodies, and all that is not JSON.

        :raises Refused: the request is one of these.
        """
        self._trusted_origins.check(
            fetch_site=request.fetch_site, origin=request.origin, host=request.host
        )
        if len(request.body) > self.max_body:
            raise too_large(self.max_body)
        kind = request.content_type.partition(";")[0].strip().lower()
        # A form on another site cannot send this type without a CORS preflight.
        if (request.body or needs_body) and kind != "application/json":
            raise Refused(415, "not_json", "The body must be of type application/json.")
