"""A model: a dialect, an address, a key, and a transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from urllib.parse import quote

from requests.auth import AuthBase

from .._checks import check_number
from ..cancel import CancelToken
from ..cancel.handler_errors import raised_by_signal_handler
from ..events import MessageFinished
from ..exceptions import (
    AuthenticationFailed,
    ConfigurationError,
    ProviderError,
    TransportError,
)
from ..messages import Message
from ..options import Options, ToolSpec, read_options
from ..providers.dialect import Dialect
from ..providers.draft import Draft
from ..transport import Transport
from ..transport.redactor import Redactor
from ..transport.retries import Retries
from ..transport.slow_auth import SlowAuth
from ..transport.timeouts import Timeout, Timeouts
from ..usage import Usage
from .aws import sign_for
from .credentials import (
    Key,
    find_key,
    make_credentials,
    secrets_of,
    split_headers,
)
from .endpoint import Endpoint
from .endpoints import ENDPOINTS
from .limiter import Limiter, Passage
from .prices import Price, find_known, find_price
from .response import Events, ModelResponse

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._arguments import OptionArguments

__all__ = ["Charge", "Model", "RunModel", "check_limiter"]


#: Charges a run for usage, with its cost if that is known.
Charge = Callable[[Usage, float | None], object]


class RunModel(Protocol):
    """The model of one run: a model, or one that remembers something for the run."""

    @property
    def full_name(self) -> str:
        """The provider and the name of the model that is asked now."""

    def ask(
        self,
        messages: Sequence[Message] | str,
        tools: Sequence[ToolSpec] = (),
        *,
        token: CancelToken | None = None,
        options: Options | None = None,
        timeouts: Timeouts | None = None,
        on_phase: Callable[[str], object] | None = None,
    ) -> ModelResponse:
        """Request the next message, as :meth:`Model.ask` does."""

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of the newest request, as :meth:`Model.cost` does."""


class Model:
    """A model of a provider. Any number of threads may use it at once.

    :param name: the provider's name for it.
    :param base_url: its address, if not the usual one, as the provider's own clients
        take it: with the version for OpenAI, with or without for Anthropic and Gemini.
    :param api_key: its key, in place of the one in the environment, or a function that
        returns a key and is called for every attempt.
    :param auth: credentials as :mod:`requests` takes them, in place of a key.
    :param headers: more headers of every request, with values or functions that return
        them; for gateways.
    :param timeout: as for :class:`~syncagent.transport.Transport`.
    :param retries: as for :class:`~syncagent.transport.Transport`.
    :param stream: False to get each response in one piece.
    :param transport: in place of *timeout*: one with proxies, certificates or a
        session; it does its own retries.
    :param endpoint: the provider, for those that share a dialect.
    :param price: the price of its tokens, in place of the one in the table of known
        models.
    :param context_window: its context window in tokens, in place of the one in the
        table.
    :param limiter: has requests wait until the provider will accept them.
    :param options: those of :class:`~syncagent.options.Options`, for every request.
    :raises ConfigurationError: there is no key, or an option is unknown or invalid.
    """

    #: Its wire dialect.
    dialect_class: ClassVar[type[Dialect]]
    #: The name of its provider, unless another endpoint is given.
    default_endpoint: ClassVar[str]
    #: The paths of streamed and of whole responses.
    paths: ClassVar[tuple[str, str]]
    #: The header with the key, and the scheme before the key.
    key_header: ClassVar[str] = "Authorization"
    key_scheme: ClassVar[str] = "Bearer"
    #: More headers of every request.
    extra_headers: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: Key | None = None,
        auth: AuthBase | None = None,
        headers: Mapping[str, Key] | None = None,
        timeout: Timeout | Timeouts = Timeouts(),  # noqa: B008 - it is frozen
        retries: int | Retries = Retries(),  # noqa: B008
        stream: bool = True,
        transport: Transport | None = None,
        endpoint: Endpoint | None = None,
        price: Price | None = None,
        context_window: int | None = None,
        limiter: Limiter | None = None,
        **options: Unpack[OptionArguments],
    ) -> None:
        self.endpoint = endpoint or ENDPOINTS[self.default_endpoint]
        self.name = name
        self.base_url = self.endpoint.find_url(base_url)
        self.stream = stream
        self.price = price
        self._is_priced = False
        check_number(
            "context_window",
            context_window,
            is_positive=True,
            is_integer=True,
            allow_none=True,
        )
        self._context_window = context_window
        check_limiter(limiter)
        self._limiter = limiter
        #: The newest lane in a limiter, and the lanes that it belongs to.
        self.lane: tuple[object, Any] = (None, None)
        self.options = read_options(options)
        if not name.strip():
            raise ConfigurationError(f"a model needs a name; got {name!r}")
        self._headers, functions = split_headers(headers)
        key = find_key(api_key, auth, self.endpoint)
        #: Tells keys apart, without holding one. Limits are those of a key.
        self.key_id = hash(key) if isinstance(key, str) else id(key or auth)
        if key is None and auth is None and self.endpoint.is_aws:
            auth = sign_for(self.base_url)
        self._auth = make_credentials(
            key, self._place_key, auth=auth, headers=functions
        )
        self.dialect = self.dialect_class(
            self.endpoint.issuer_of(self.base_url), self.endpoint.quirks
        )
        self._retries = Retries.of(retries)
        self._transport = transport or Transport(timeout=timeout, retries=retries)

    def ask(
        self,
        messages: Sequence[Message] | str,
        tools: Sequence[ToolSpec] = (),
        *,
        token: CancelToken | None = None,
        options: Options | None = None,
        timeouts: Timeouts | None = None,
        on_phase: Callable[[str], object] | None = None,
    ) -> ModelResponse:
        """Request the next message, and return the response: an iterator of events.

        The request is sent with the first ``next()``. The last event is
        :class:`~syncagent.events.MessageFinished`. Close it if you stop before that.

        Cancellation: ends at once, in every phase.

        :param messages: preferably a :class:`~syncagent.transcript.Transcript`; a
            string is a user message.
        :param token: cancels the request.
        :param options: in place of the model's own.
        :param timeouts: in place of the model's own.
        :param on_phase: called with the name of each phase as it begins.
        :raises Cancelled: *token* was cancelled; its ``usage`` is the usage so far.
        :raises ConfigurationError: the provider does not have one of the options.
        :raises SyncAgentError: there is no response, or it is incomplete.
        """
        payload = self.dialect.build_payload(
            self.name, messages, tools, options or self.options, stream=self.stream
        )
        request: dict[str, Any] = {
            "token": token or CancelToken(),
            "data": payload,
            "auth": self._auth,
            # Of the same class: the repr of secret ones shows nothing.
            "headers": type(self._headers)({**self.extra_headers, **self._headers}),
            "timeouts": timeouts,
            "on_phase": on_phase,
            "redactor": Redactor(""),
            "explain": self.dialect.explain,
            "gate": self.passage(len(payload), options),
        }
        response = ModelResponse(len(payload), (options or self.options).prefill)
        return response.follow(self._attempts(response, request))

    def respond(
        self,
        messages: Sequence[Message] | str,
        tools: Sequence[ToolSpec] = (),
        *,
        token: CancelToken | None = None,
        options: Options | None = None,
        on_phase: Callable[[str], object] | None = None,
    ) -> MessageFinished:
        """Request the next message, and return it when it is complete.

        Cancellation: ends at once, in every phase.

        Parameters and errors are those of :meth:`ask`.
        """
        response = self.ask(
            messages, tools, token=token, options=options, on_phase=on_phase
        )
        with closing(response):
            for event in response:
                if isinstance(event, MessageFinished):
                    return event
        raise AssertionError("a response without MessageFinished")

    def for_run(self, charge: Charge) -> RunModel:
        """Return the model for one run; it keeps nothing for other runs.

        :param charge: called for requests that failed and were made elsewhere.
        """
        return self

    @property
    def limiter(self) -> Limiter | None:
        """The limiter that its requests pass."""
        return self._limiter

    def limited_by(self, limiter: Limiter) -> Model:
        """Return this model with another limiter; it shares everything else."""
        check_limiter(limiter)
        other = copy(self)
        other._limiter = limiter
        return other

    def passage(self, sent: int, options: Options | None) -> Passage | None:
        """Return the gate that all attempts at a request pass, if there is one.

        :param sent: the size of its payload in bytes.
        """
        limiter = self._limiter
        if limiter is None:
            return None
        return limiter.passage(self, sent, options or self.options)

    @property
    def full_name(self) -> str:
        """Its provider and its name, such as ``openai:gpt-6-luna``."""
        return f"{self.endpoint.name}:{self.name}"

    def _place_key(self, key: str) -> tuple[str, str]:
        """Return the header for *key*, and the scheme before it."""
        endpoint = self.endpoint
        if endpoint.is_token(key):
            return "Authorization", "Bearer"
        if endpoint.key_header:
            return endpoint.key_header, endpoint.key_scheme
        return self.key_header, self.key_scheme

    @property
    def timeouts(self) -> Timeouts:
        """The timeouts of each phase of a request."""
        return self._transport.timeouts

    @property
    def context_window(self) -> int | None:
        """Its context window in tokens, or None if it is not known."""
        if self._context_window is None:
            known = find_known(self.name, self.endpoint.name)
            self._context_window = None if known is None else known.window
        return self._context_window

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of *usage* in US dollars, or None without a price.

        :param usage: that of one request.
        """
        if not self._is_priced:
            self.price = self.price or find_price(self.name, self.endpoint.name)
            self._is_priced = True  # last: other threads rely on the price then
        return None if self.price is None else self.price.of(usage)

    def _attempts(self, response: ModelResponse, request: dict[str, Any]) -> Events:
        """Yield the events of a response; retry if it begins with an error.

        The transport retries errors before the response.
        """
        gate: Passage | None = request["gate"]
        failures = 0
        while True:
            has_begun = response.has_error_inside = False
            try:
                with closing(self._events(response, request)) as events:
                    for event in events:
                        has_begun = True
                        yield event
                        yield from events  # the rest, a little faster
            except (ProviderError, TransportError) as error:
                if raised_by_signal_handler(error):
                    raise
                failure = error
            except ConfigurationError as error:
                if raised_by_signal_handler(error):
                    raise
                # Frames of the transport hold headers, of which one may be secret.
                raise error.with_traceback(None) from error.__cause__
            else:
                return
            finally:
                if gate is not None:
                    gate.leave()  # if the transport could not
                    if gate.counts_tokens and has_begun:
                        gate.used(response.usage)
            # Outside of the "except": the next error does not refer to this one, which
            # quotes the provider as it is.
            try:
                is_ours = response.has_error_inside and not has_begun
                is_ours = is_ours and isinstance(failure, ProviderError)
                delay = None
                if is_ours and gate is not None and gate.failed(failure, {}):
                    delay = 0.0
                elif is_ours:
                    failures += 1
                    delay = self._retries.delay(failures, failure)
                if delay is None:
                    cause = failure.__cause__
                    failure = self._explained(failure, response, request["redactor"])
                    raise failure from cause
            finally:
                del failure  # its traceback refers to this frame
            request["token"].sleep(delay)

    def _explained(
        self,
        error: ProviderError | TransportError,
        response: ModelResponse,
        redactor: Redactor,
    ) -> ProviderError | TransportError:
        """Return *error* with its provider, and without secrets."""
        error.provider = self.endpoint.name
        prefix = "" if error.url else f"{error.provider}: "
        if response.has_error_inside:
            error.url = redactor.url
        if isinstance(error, ProviderError):
            if response.has_error_inside:
                error.status = 200
                error.request_id = error.request_id or response.request_id
            if error.status == 200:  # the transport has cleaned all others
                error.args = (redactor.printable(str(error)),)
                error.body = redactor.printable(error.body)
                error.__context__ = None  # a decoder's, which quotes the provider, too
                if error.request_id:
                    error.request_id = redactor.quote(error.request_id)
                    error.args = (f"{error} (request {error.request_id})",)
            if isinstance(error, AuthenticationFailed) and error.status is not None:
                places = ("api_key=", *self.endpoint.key_variables)
                if isinstance(self._auth, SlowAuth):
                    places = ("api_key=", "auth=", "headers=")
                error.args = (f"{error}; check the key in {' or '.join(places)}",)
        error.__traceback__ = None  # frames of decoders hold the provider's text
        error.args = (f"{prefix}{error}",)
        return error

    def _events(self, response: ModelResponse, request: dict[str, Any]) -> Events:
        url, dialect = self._url(), self.dialect
        response.draft = Draft(dialect.issuer)
        request["redactor"] = Redactor(url)
        if not self.stream:
            whole = self._transport.post(url, **request)
            with response.decoding(whole):
                yield from dialect.decode_body(whole.body, response.draft)
            return
        with (
            self._transport.stream(url, is_end=dialect.is_end, **request) as events,
            response.decoding(events),
        ):
            yield from dialect.decode(events, response.draft)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not appear in logs or recordings, such as its key.

        Read it again for each text: functions return new keys.
        """
        auth, headers = getattr(self, "_auth", None), getattr(self, "_headers", {})
        return secrets_of(auth, headers)

    def _url(self) -> str:
        """Return the URL of requests."""
        streamed, whole = self.endpoint.paths or self.paths
        name = quote(self.name.removeprefix("models/"), safe="@")
        return self.base_url + (streamed if self.stream else whole).format(model=name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.full_name}>"


def check_limiter(limiter: Any) -> None:
    """Check that *limiter* is a :class:`~syncagent.Limiter`, or None.

    :raises ConfigurationError: it is not.
    """
    if limiter is not None and not isinstance(limiter, Limiter):
        raise ConfigurationError(f"limiter takes a Limiter; got {limiter!r:.80}")
