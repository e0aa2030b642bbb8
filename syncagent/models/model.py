"""A model: a dialect, an address, a key, and a transport."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import count
from typing import Any, ClassVar

import msgspec
from requests.auth import AuthBase

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
from ..options import Options, ToolSpec
from ..providers.dialect import Dialect
from ..providers.draft import Draft
from ..transport import Transport
from ..transport.redactor import Redactor
from ..transport.retries import Retries
from ..transport.slow_auth import SlowAuth
from ..transport.timeouts import Timeout, Timeouts
from ..usage import Usage
from .credentials import (
    Credentials,
    Key,
    find_key,
    make_credentials,
    secrets_of,
    split_headers,
)
from .endpoints import ENDPOINTS, Endpoint
from .prices import Price, find_price
from .response import Events, ModelResponse

__all__ = ["Credentials", "Model"]

_OPTION_NAMES = frozenset(Options.__struct_fields__)


class Model(ABC):
    """A model of a provider. Any number of threads may use it at once.

    :param name: the provider's name for it.
    :param base_url: its address, if not the usual one, as the provider's own clients
        take it: with the version for OpenAI, with or without for Anthropic and Gemini.
    :param api_key: its key, if not that of the environment, or a function that returns
        one, which is asked for every attempt.
    :param auth: credentials as :mod:`requests` takes them, in place of a key.
    :param headers: more headers of every request, with values or functions that return
        them; for gateways.
    :param timeout: as for :class:`~syncagent.transport.Transport`.
    :param retries: as for :class:`~syncagent.transport.Transport`.
    :param stream: False to get each response in one piece.
    :param transport: in place of *timeout*: one with proxies, certificates or a
        session; it does its own retries.
    :param endpoint: the provider, for those that share a dialect.
    :param price: the price of its tokens, in place of ``syncagent.models.PRICES``.
    :param options: those of :class:`~syncagent.options.Options`, for every request.
    :raises ConfigurationError: there is no key, or an option is unknown or invalid.
    """

    dialect: Dialect
    #: The name of its provider, unless another endpoint is given.
    default_endpoint: ClassVar[str]
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
        **options: Any,
    ) -> None:
        self.endpoint = endpoint or ENDPOINTS[self.default_endpoint]
        self.name = name
        self.base_url = self.endpoint.find_url(base_url)
        self.stream = stream
        self.price = price
        self._is_priced = False
        unknown = options.keys() - _OPTION_NAMES
        if unknown:
            raise ConfigurationError(
                f"unknown option: {', '.join(sorted(unknown))}; known options are "
                f"{', '.join(sorted(_OPTION_NAMES))}. Fields that only your provider "
                "has go into extra="
            )
        try:
            self.options = msgspec.convert(options, Options)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"invalid option: {error}") from None
        if not name.strip():
            raise ConfigurationError(f"a model needs a name; got {name!r}")
        self._headers, functions = split_headers(headers)
        self._auth = make_credentials(
            find_key(api_key, auth, self.endpoint),
            self._of_endpoint("key_header"),
            self._of_endpoint("key_scheme"),
            auth=auth,
            headers=functions,
        )
        self.dialect = self._choose_dialect()
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
            "headers": {**self.extra_headers, **self._headers},
            "timeouts": timeouts,
            "on_phase": on_phase,
            "redactor": Redactor(""),
            "explain": self.dialect.explain,
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

    def _of_endpoint(self, name: str) -> str:
        """Return the endpoint's own value of an attribute, or that of the class."""
        own = getattr(self.endpoint, name, None)
        value: str = getattr(self, name) if own is None else own
        return value

    @property
    def timeouts(self) -> Timeouts:
        """The timeouts of each phase of a request."""
        return self._transport.timeouts

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of *usage* in US dollars, or None without a price."""
        if not self._is_priced:
            self._is_priced = True
            self.price = self.price or find_price(self.name)
        return None if self.price is None else self.price.of(usage)

    def _attempts(self, response: ModelResponse, request: dict[str, Any]) -> Events:
        """Yield the events of a response; retry if it begins with an error.

        The transport retries errors before the response.
        """
        for failures in count(1):
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
            else:
                return
            # Outside of the "except": the next error does not refer to this one, which
            # quotes the provider as it is.
            try:
                is_ours = response.has_error_inside and not has_begun
                is_ours = is_ours and isinstance(failure, ProviderError)
                delay = self._retries.delay(failures, failure) if is_ours else None
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
        """Return *error* as it is shown: with its origin, and without secrets."""
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
        response.draft = Draft(dialect.name)
        request["redactor"] = Redactor(url)
        if not self.stream:
            whole = self._transport.post(url, **request)
            with response.decoding(whole):
                yield from dialect.decode_body(whole.body)
            return
        with (
            self._transport.stream(url, is_end=dialect.is_end, **request) as events,
            response.decoding(events),
        ):
            yield from dialect.decode(events, response.draft)

    def _choose_dialect(self) -> Dialect:
        """Return the dialect of the endpoint: that of the class, unless it differs."""
        return self.dialect

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not appear in logs or recordings, such as its key.

        Ask again for each text: functions return new keys.
        """
        auth, headers = getattr(self, "_auth", None), getattr(self, "_headers", {})
        return secrets_of(auth, headers)

    @abstractmethod
    def _url(self) -> str:
        """Return the URL of requests."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.endpoint.name}:{self.name}>"
