"""Models by their strings, such as ``openai:gpt-6-luna``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from requests.auth import AuthBase

from ..exceptions import ConfigurationError
from ..options import Effort, OutputFormat, ServerTool
from ..providers.dialect import Dialect
from ..transport import Retries, Timeouts, Transport
from ..transport.timeouts import Timeout
from .credentials import Key
from .dialects import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from .endpoint import Endpoint
from .endpoints import find_endpoint
from .known import Price
from .limiter import Limiter
from .model import Model

__all__ = ["check_name", "dialect_of", "explain_settings", "find_model"]

_TIMEOUTS: Final = Timeouts()
_RETRIES: Final = Retries()
_CLASSES: Final[dict[str, type[Model]]] = {
    each.dialect_class.name: each
    for each in (OpenAIChat, OpenAIResponses, Anthropic, Gemini)
}


def find_model(
    name: str | Model,
    *,
    temperature: float | None = None,
    top_p: float | None = None,
    max_tokens: int | None = None,
    effort: Effort | None = None,
    thinking_tokens: int | None = None,
    stop: str | Sequence[str] | None = None,
    seed: int | None = None,
    system: str | None = None,
    prefill: str | None = None,
    tool_choice: str | None = None,
    parallel_tool_calls: bool | None = None,
    server_tools: Sequence[ServerTool] | None = None,
    output: OutputFormat | None = None,
    cache: bool | str | None = None,
    cache_key: str | None = None,
    metadata: dict[str, str] | None = None,
    extra: dict[str, Any] | None = None,
    base_url: str | None = None,
    api_key: Key | None = None,
    auth: AuthBase | None = None,
    headers: Mapping[str, Key] | None = None,
    timeout: Timeout | Timeouts = _TIMEOUTS,
    retries: int | Retries = _RETRIES,
    stream: bool = True,
    transport: Transport | None = None,
    price: Price | None = None,
    context_window: int | None = None,
    limiter: Limiter | None = None,
) -> Model:
    """Return the model for *name*: ``PROVIDER:NAME``, or ``local``.

    :param name: a model is returned as it is.
    :param temperature: one of :class:`~syncagent.options.Options`, for every request,
        like the others down to *extra*.
    :param base_url: one of the settings of :class:`~syncagent.models.Model`, like those
        after it.
    :raises ConfigurationError: the provider is unknown, or a setting is invalid.
    """
    given, usual = locals(), find_model.__kwdefaults__ or {}
    settings = {key: given[key] for key in usual if given[key] is not usual[key]}
    if isinstance(name, Model):
        if settings:
            raise ConfigurationError(
                f"{name!r} is already a model; pass {', '.join(settings)} to its "
                "constructor"
            )
        return name
    return _make(name, settings)


def explain_settings(model: object, unknown: Iterable[str]) -> str:
    """Return where settings belong that an agent does not have, or an empty string.

    :param model: what the agent was given as its model.
    """
    names = [name for name in unknown if name in (find_model.__kwdefaults__ or {})]
    if not names:
        return ""
    given = ", ".join(f"{name}=..." for name in names)
    verb = "is a setting" if len(names) == 1 else "are settings"
    subject = f"{' and '.join(names)} {verb}"
    if not isinstance(model, str):
        call = f"{type(model).__name__}(..., {given})"
        return f"{subject} of the model: write {call} where you make it"
    return (
        f'{subject} of the model: pass find_model("{model:.80}", {given}) in '
        "place of the name; from syncagent.models import find_model"
    )


def _make(name: str, settings: dict[str, Any]) -> Model:
    endpoint = check_name(name)
    if endpoint is None:
        from .local import Local

        return Local(**settings)
    model = name.partition(":")[2]
    return _CLASSES[endpoint.dialect](model, endpoint=endpoint, **settings)


def dialect_of(endpoint: Endpoint, base_url: str = "") -> Dialect:
    """Return the dialect of an endpoint, as its models speak it.

    :param base_url: its address, if not the usual one.
    """
    issuer = endpoint.issuer_of(base_url or endpoint.base_url)
    return _CLASSES[endpoint.dialect].dialect_class(issuer, endpoint.quirks)


def check_name(name: str) -> Endpoint | None:
    """Return the endpoint in *name*, or None for the local model.

    :raises ConfigurationError: the provider is unknown, or there is no model name.
    """
    provider, colon, model = name.partition(":")
    if provider == "local":
        if model:
            raise ConfigurationError("there is one local model; its name is local")
        return None
    endpoint = find_endpoint(provider, model, also=("local",))
    if not colon or not model:
        raise ConfigurationError(
            f"{name!r} names no model; write for example "
            f"{endpoint.name}:{endpoint.example}"
        )
    return endpoint
