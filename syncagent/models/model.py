"""A model that can be asked: a dialect, an address, a key, and a transport."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count
from typing import Any, ClassVar, NoReturn

import msgspec
from requests import PreparedRequest
from requests.auth import AuthBase

from ..cancel import CancelToken
from ..events import MessageFinished
from ..exceptions import AuthenticationFailed, ConfigurationError, ProviderError
from ..messages import Message
from ..options import Options, ToolSpec
from ..providers.dialect import Dialect
from ..providers.draft import Draft
from ..transport import Transport
from ..transport.retries import Retries
from ..transport.timeouts import Timeout, Timeouts
from ..usage import Usage
from .endpoints import ENDPOINTS, Endpoint
from .prices import Price, find_price
from .response import Events, ModelResponse

__all__ = ["Credentials", "Model"]

_OPTION_NAMES = frozenset(Options.__struct_fields__)


class Credentials(AuthBase):
    """A key, in the header where its provider looks for it.

    :param key: what nobody is shown.
    """

    def __init__(self, key: str, header: str = "Authorization", scheme: str = "Bearer"):
        self._key = key
        self._header = header
        self._scheme = scheme

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        value = f"{self._scheme} {self._key}" if self._scheme else self._key
        request.headers[self._header] = value
        return request

    def __repr__(self) -> str:
        return "<Credentials>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a key is not pickled; make the model on the other side, where the "
            "environment has it"
        )


class Model(ABC):
    """Ask a model, and get its answer in events.

    One model serves any number of threads.

    :param name: what its provider calls it.
    :param base_url: its address, if not the usual one.
    :param api_key: if not the environment's.
    :param timeout: as for :class:`~syncagent.transport.Transport`.
    :param retries: the same.
    :param stream: have the answer come as it is written?
    :param transport: in place of *timeout*: one with proxies, certificates or a
        session; it does its own retries.
    :param endpoint: which provider it is at, for those that share a dialect.
    :param price: what its tokens cost, if ``syncagent.models.prices`` does not know.
    :param options: those of :class:`~syncagent.options.Options`, for every request.
    :raises ConfigurationError: there is no key, or no such option.
    """

    dialect: Dialect
    #: Its provider, unless another is given.
    default_endpoint: ClassVar[str]

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
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
        self.base_url = (base_url or self.endpoint.find_url()).rstrip("/")
        self.stream = stream
        self.price = price
        self._is_priced = False
        self.options = _options(options)
        if not name.strip():
            raise ConfigurationError(f"a model has a name; got {name!r}")
        key = (api_key or "").strip() or self.endpoint.find_key()
        if key is None and self.endpoint.needs_key:
            raise self.endpoint.missing_key()
        self._auth = None if key is None else self._credentials(key)
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
        """Ask for the next message, and return what comes of it, in events.

        The request is made when the first event is asked for. The last one is
        :class:`~syncagent.events.MessageFinished`. Close it if you stop before that.

        Cancellation: ends at once, wherever it is.

        :param messages: best a :class:`~syncagent.transcript.Transcript`; a string is
            what the user says.
        :param token: what to cancel it by.
        :param options: in place of the model's own.
        :param timeouts: the same.
        :param on_phase: called with the name of each phase as it begins.
        :raises Cancelled: *token* was cancelled; its ``usage`` says what came before.
        :raises ConfigurationError: the provider has no word for one of the options.
        :raises SyncAgentError: there is no answer, or no complete one.
        """
        payload = self.dialect.build_payload(
            self.name, messages, tools, options or self.options, stream=self.stream
        )
        how: dict[str, Any] = {
            "token": token or CancelToken(),
            "data": payload,
            "auth": self._auth,
            "headers": self._headers(),
            "timeouts": timeouts,
            "on_phase": on_phase,
        }
        answer = ModelResponse(len(payload), (options or self.options).prefill)
        return answer.follow(self._attempts(answer, how))

    def reply(
        self,
        messages: Sequence[Message] | str,
        tools: Sequence[ToolSpec] = (),
        *,
        token: CancelToken | None = None,
        options: Options | None = None,
        on_phase: Callable[[str], object] | None = None,
    ) -> MessageFinished:
        """Ask for the next message, and return it when it is complete.

        Cancellation: ends at once, wherever it is.

        Parameters and errors are those of :meth:`ask`.
        """
        events = self.ask(
            messages, tools, token=token, options=options, on_phase=on_phase
        )
        with closing(events):
            for event in events:
                if isinstance(event, MessageFinished):
                    return event
        raise AssertionError("an answer without an end")

    @property
    def timeouts(self) -> Timeouts:
        """How long each part of a call may take."""
        return self._transport.timeouts

    def cost(self, usage: Usage) -> float | None:
        """Return what *usage* has cost in US dollars, ``None`` if nobody knows."""
        if not self._is_priced:
            self._is_priced = True
            self.price = self.price or find_price(self.name)
        return None if self.price is None else self.price.of(usage)

    def _attempts(self, answer: ModelResponse, how: dict[str, Any]) -> Events:
        """Yield an answer; try again if it is an error from its first word on.

        The transport tries again what fails before that.
        """
        for failures in count(1):
            has_begun = False
            try:
                with closing(self._events(answer, how)) as events:
                    for event in events:
                        has_begun = True
                        yield event
            except ProviderError as error:
                # With a status, it was the transport's to try again.
                is_ours = error.url == "" and not has_begun
                delay = self._retries.delay(failures, error) if is_ours else None
                if delay is None:
                    raise self._explained(error) from error.__cause__
            else:
                return
            how["token"].sleep(delay)

    def _events(self, answer: ModelResponse, how: dict[str, Any]) -> Events:
        url = self._url()
        answer.draft = Draft(self.dialect.name)
        if not self.stream:
            yield from self.dialect.decode_reply(self._transport.post(url, **how).body)
            return
        with self._transport.stream(url, is_end=self.dialect.is_end, **how) as events:
            yield from self.dialect.decode(events, answer.draft)

    def _explained(self, error: ProviderError) -> ProviderError:
        explained = self.dialect.explain(error)
        if isinstance(explained, AuthenticationFailed):
            where = " or ".join(("api_key=", *self.endpoint.key_variables))
            explained.args = (f"{explained}; is the key in {where} the right one?",)
        return explained

    def _choose_dialect(self) -> Dialect:
        """Return what is spoken at the endpoint; the class's own, unless it differs."""
        return self.dialect

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be written anywhere, such as its key."""
        key = getattr(getattr(self, "_auth", None), "_key", None)
        return () if key is None else (key,)

    def _credentials(self, key: str) -> AuthBase:
        return Credentials(key)

    def _headers(self) -> dict[str, str]:
        return {}

    @abstractmethod
    def _url(self) -> str:
        """Return where to ask."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.endpoint.name}:{self.name}>"


def _options(given: dict[str, Any]) -> Options:
    """Return *given* as options, each of the right type.

    :raises ConfigurationError: there is no such option, or it cannot be so.
    """
    unknown = given.keys() - _OPTION_NAMES
    if unknown:
        raise ConfigurationError(
            f"no option is called {', '.join(sorted(unknown))}; known are "
            f"{', '.join(sorted(_OPTION_NAMES))}. What only your provider knows goes "
            "into extra="
        )
    try:
        return msgspec.convert(given, Options)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"an option cannot be so: {error}") from None
