"""Models by their strings, such as ``openai:gpt-6-luna``."""

from __future__ import annotations

from typing import Any, Final

from ..exceptions import ConfigurationError
from ..providers.dialect import Dialect
from .dialects import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from .endpoint import Endpoint
from .endpoints import find_endpoint
from .model import Model

__all__ = ["check_name", "dialect_of", "find_model"]

_CLASSES: Final[dict[str, type[Model]]] = {
    each.dialect_class.name: each
    for each in (OpenAIChat, OpenAIResponses, Anthropic, Gemini)
}


def find_model(name: str | Model, **settings: Any) -> Model:
    """Return the model for *name*: ``PROVIDER:NAME``, or ``local``.

    :param name: a model is returned as it is.
    :param settings: as for :class:`~syncagent.models.Model`.
    :raises ConfigurationError: the provider is unknown, or a setting is invalid.
    """
    if isinstance(name, Model):
        if settings:
            raise ConfigurationError(
                f"{name!r} is already a model; pass {', '.join(settings)} to its "
                "constructor"
            )
        return name
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
