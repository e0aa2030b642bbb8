"""Several models as one: if the first cannot respond, the next one does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from copy import copy
from typing import Any, Final, TypeVar

import msgspec

from .._checks import check_timeout
from ..cancel import CancelToken, clock
from ..cancel.handler_errors import raised_by_signal_handler
from ..cancel.once import Once
from ..events import Event, MessageStarted, ModelChanged, UsageUpdated
from ..exceptions import (
    ConfigurationError,
    ContextTooLong,
    ProtocolError,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    RedirectRefused,
    ResponseTooLarge,
    SyncAgentError,
    TransportError,
)
from ..messages import AssistantMessage, Message
from ..options import Options, ToolSpec
from ..transport.timeouts import Timeouts
from ..usage import Usage
from .limiter import Limiter
from .model import Charge, Model, RunModel
from .names import find_model
from .response import Events, ModelResponse

__all__ = ["Circuit", "Fallback"]

_log = logging.getLogger("syncagent.models")

#: Seconds for which a model that failed is left out.
_PAUSE: Final = 30.0
#: The status of an account without money.
_UNPAID: Final = 402
#: Errors of a provider that cannot respond now.
_COVERED: Final = (RateLimited, ProviderUnavailable, ProtocolError, TransportError)
#: Errors that another provider would not cure.
_NOT_COVERED: Final = (RedirectRefused, ResponseTooLarge)

_S = TypeVar("_S", bound=msgspec.Struct)


class Fallback(Model):
    """Several models as one: if the first cannot respond, the next one does.

    A request falls over to the next model before the first word of a response, and
    never after it: when the provider is overloaded, limits the rate, or cannot be
    reached, after the model's own retries. It does not after a cancel, for a request
    that the provider rejects, or for a wrong key. If a conversation is too long, only a
    model with a larger context window is tried.

    A run stays with the model that responded. Other runs start with the first model
    again, but leave a model that failed out for *pause* seconds; then one request tries
    it, and all others follow if that succeeds. Any number of threads may share it.

    Each model keeps its own options and timeouts; those of an agent or a run are added
    to them. The context window is the smallest of all.

    :param models: models, or their names, the preferred one first.
    :param pause: seconds for which a model that failed is left out, or longer if its
        provider asks for that.
    :param also: more errors for which it falls over, such as
        :exc:`~syncagent.exceptions.AuthenticationFailed`.
    :raises ConfigurationError: there is only one model, or a setting is invalid.
    """

    #: The models, the preferred one first.
    models: tuple[Model, ...]

    def __init__(
        self,
        *models: Model | str,
        pause: float = _PAUSE,
        also: Sequence[type[SyncAgentError]] = (),
    ) -> None:
        kind: Any
        found: list[Model] = []
        for model in models:
            each = find_model(model)
            if not isinstance(each, Model):
                raise ConfigurationError(
                    f"Fallback takes models and their names; got {each!r:.80}"
                )
            found += each.models if isinstance(each, Fallback) else (each,)
        if len(found) < 2:
            raise ConfigurationError("Fallback needs two models or more")
        check_timeout(pause, "pause")
        for kind in also:
            if not (isinstance(kind, type) and issubclass(kind, SyncAgentError)):
                raise ConfigurationError(
                    f"also takes classes of SyncAgentError; got {kind!r:.80}"
                )
        self.models = tuple(found)
        self.circuits: Final = tuple(Circuit(pause) for _ in found)
        self._also: Final = tuple(also)
        # Nothing by itself: each model has its own options, to which these are added.
        self.options = Options()
        first = found[0]
        self.name, self.endpoint = first.name, first.endpoint
        self.base_url, self.stream = first.base_url, first.stream
        self.dialect, self.price, self._limiter = first.dialect, None, None
        self.lane = (None, None)

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
        """Request the next message of the first model that can respond.

        An event :class:`~syncagent.events.ModelChanged` comes before the response of
        another model.

        Cancellation: ends at once, in every phase.

        :raises SyncAgentError: no model can respond; this is the last one's error, and
            its ``earlier_errors`` are those of the others.
        """
        return self.for_run(lambda usage, cost: None).ask(
            *(messages, tools),
            token=token,
            options=options,
            timeouts=timeouts,
            on_phase=on_phase,
        )

    def for_run(self, charge: Charge) -> RunModel:
        """Return the model for one run, which stays with the one that responds."""
        return _StickyModel(self, charge)

    def covers(self, error: Exception) -> bool:
        """Return whether another model should be tried after *error*."""
        if isinstance(error, self._also):
            return True
        if isinstance(error, ProviderError) and error.status == _UNPAID:
            return True
        return isinstance(error, _COVERED) and not isinstance(error, _NOT_COVERED)

    def limited_by(self, limiter: Limiter) -> Model:
        """Return the same models with another limiter; they share everything else."""
        other = copy(self)
        other.models = tuple(each.limited_by(limiter) for each in self.models)
        return other

    @property
    def timeouts(self) -> Timeouts:
        """The timeouts of the first model."""
        return self.models[0].timeouts

    @property
    def context_window(self) -> int | None:
        """The smallest context window of all, as far as they are known."""
        windows = [each.context_window for each in self.models]
        return min((size for size in windows if size is not None), default=None)

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of *usage* in the most expensive model.

        A run is charged by the model that responded. None if a price is unknown.
        """
        costs = [each.cost(usage) for each in self.models]
        known = [cost for cost in costs if cost is not None]
        return max(known) if len(known) == len(costs) else None

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not appear in logs or recordings, of all models."""
        return tuple(secret for each in self.models for secret in each.secrets)

    def __repr__(self) -> str:
        return f"<Fallback {', '.join(each.full_name for each in self.models)}>"


class _StickyModel:
    """The models of a :class:`Fallback` for one run, on one thread at a time."""

    def __init__(self, fallback: Fallback, charge: Charge) -> None:
        self._fallback = fallback
        self._charge = charge
        #: The place of the model that is asked now; None before the first request.
        self._place: int | None = None

    @property
    def _model(self) -> Model:
        return self._fallback.models[self._place or 0]

    @property
    def full_name(self) -> str:
        """The provider and the name of the model that is asked now."""
        return self._model.full_name

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of *usage* in the model that is asked now."""
        return self._model.cost(usage)

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
        """Request the next message; as for :meth:`Fallback.ask`."""
        token = token or CancelToken()
        fallback = self._fallback
        given, usual = options or fallback.options, fallback.timeouts

        def ask(model: Model) -> ModelResponse:
            return model.ask(
                *(messages, tools),
                token=token,
                options=_options_for(model, given),
                timeouts=timeouts and _merged(model.timeouts, timeouts, usual),
                on_phase=on_phase,
            )

        response = _FallbackResponse()
        response.play(self._events(response, ask, token, on_phase))
        return response

    def _events(
        self,
        response: _FallbackResponse,
        ask: Callable[[Model], ModelResponse],
        token: CancelToken,
        on_phase: Callable[[str], object] | None,
    ) -> Events:
        """Yield the events of the first model that begins to respond."""
        yield from self._first_place()
        tried: list[int] = []
        errors: list[Exception] = []
        while True:
            place = self._place
            assert place is not None
            tried.append(place)
            model, circuit = self._model, self._fallback.circuits[place]
            has_begun = False
            held: list[Event] = []
            try:
                with closing(ask(model)) as response.current:
                    for event in response.current:
                        if isinstance(event, (MessageStarted, UsageUpdated)):
                            held.append(event)  # no word yet
                            continue
                        has_begun = True
                        circuit.close()
                        yield from held
                        yield event
                        yield from response.current
            except SyncAgentError as error:
                if has_begun or raised_by_signal_handler(error):
                    raise
                failure = error
            else:
                return
            # Outside of the "except": the next error does not refer to this one.
            try:
                if self._fallback.covers(failure):
                    circuit.open(failure)
                next_place = self._next_place(failure, tried)
                if next_place is None:
                    raise _with_earlier(failure, errors)
                token.checkpoint()
                if on_phase is not None:
                    on_phase("model")  # nothing is sent to the next one yet
                usage = failure.usage
                if usage is not None and usage.total_tokens:
                    self._charge(usage, model.cost(usage))
                errors.append(failure.with_traceback(None))
                yield self._change(next_place, str(failure))
            finally:
                del failure  # its traceback refers to this frame

    def _first_place(self) -> Events:
        """Choose the model of a new run."""
        if self._place is not None:
            return
        circuits = self._fallback.circuits
        admitting = (place for place, each in enumerate(circuits) if each.admits())
        place = next(admitting, 0)
        self._place = 0
        if place:
            yield self._change(place, circuits[0].error)

    def _next_place(self, error: Exception, tried: list[int]) -> int | None:
        """Return which model to try after *error*, or None."""
        fallback, place = self._fallback, self._place or 0
        count = len(fallback.models)
        others = [(place + step) % count for step in range(1, count)]
        others = [each for each in others if each not in tried]
        if isinstance(error, ContextTooLong):
            size = self._model.context_window
            windows = [each.context_window for each in fallback.models]
            larger = [each for each in others if (windows[each] or 0) > (size or 0)]
            return next(iter(larger), None) if size else None
        if not others or not fallback.covers(error):
            return None
        admitting = (each for each in others if fallback.circuits[each].admits())
        return next(admitting, others[0])  # one that failed is better than none

    def _change(self, place: int, error: str) -> ModelChanged:
        before = self.full_name
        self._place = place
        _log.warning("%s cannot respond; asking %s: %s", before, self.full_name, error)
        return ModelChanged(before, self.full_name, error)


class _FallbackResponse(ModelResponse):
    """The response of the model that is asked now."""

    def __init__(self) -> None:
        super().__init__()
        #: The response of that model.
        self.current = ModelResponse()

    def play(self, events: Events) -> None:
        """Make *events* the events of this response."""
        self._events = events

    def partial(self) -> AssistantMessage | None:
        """Return the content so far, as a message that was cut off, or None."""
        return self.current.partial()

    @property
    def usage(self) -> Usage:
        """The usage of that model so far."""
        return self.current.usage


class _Pause:
    """A time in which a model is left out, and the one after it."""

    __slots__ = ("error", "next", "until")

    def __init__(self, until: float, error: str) -> None:
        self.until = until
        self.error = error
        #: The pause that begins when a request tries the model again: if nothing is
        #: heard from that request, another one may try after it.
        self.next: Final[Once[_Pause]] = Once()


class Circuit:
    """Leave a model out for a while after a failure. Takes no lock.

    :param seconds: for how long.
    """

    __slots__ = ("_pause", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._pause: _Pause | None = None

    @property
    def error(self) -> str:
        """The error for which the model is left out."""
        return "" if self._pause is None else self._pause.error

    def admits(self) -> bool:
        """Return whether a request may go to the model.

        After the pause it returns true to one caller: its request tries the model.
        """
        pause = self._pause
        if pause is None:
            return True
        now = clock.now()
        if now < pause.until:
            return False
        mine = _Pause(now + self._seconds, pause.error)
        standing = pause.next.claim(mine)
        if self._pause is pause:
            self._pause = standing
        return standing is mine

    def open(self, error: Exception) -> None:
        """Leave the model out from now on, for *error*."""
        asked = getattr(error, "retry_after", None) or 0.0
        until = clock.now() + max(self._seconds, asked)
        self._pause = _Pause(until, str(error))

    def close(self) -> None:
        """Note that the model responds."""
        self._pause = None


_NO_OPTIONS: Final = Options()


def _options_for(model: Model, given: Options) -> Options:
    """Return the model's options with those that are *given*."""
    options = _merged(model.options, given, _NO_OPTIONS)
    own = model.options.cache
    if own is not None and given.cache is True:  # an agent's default, no more than that
        return msgspec.structs.replace(options, cache=own)
    return options


def _merged(own: _S, given: _S, usual: _S) -> _S:
    """Return *own* with whatever in *given* is not as *usual*."""
    changed: dict[str, Any] = {}
    for field in own.__struct_fields__:
        value = getattr(given, field)
        if value != getattr(usual, field):
            changed[field] = value
    return msgspec.structs.replace(own, **changed) if changed else own


def _with_earlier(error: SyncAgentError, errors: list[Exception]) -> SyncAgentError:
    """Return *error* with the errors of the models that were tried before."""
    if errors:
        error.earlier_errors = tuple(errors)
        notes = [f"an earlier model failed, too: {each}" for each in errors]
        # Not add_note(), which Python 3.10 does not have.
        vars(error)["__notes__"] = [*getattr(error, "__notes__", ()), *notes]
    return error
