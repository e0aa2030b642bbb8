"""Models by their strings, such as ``openai:gpt-5-mini``."""

from __future__ import annotations

from typing import Any, Final

from ..exceptions import ConfigurationError
from .dialects import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from .endpoints import Endpoint, find_endpoint
from .model import Model

__all__ = ["check_name", "find_model"]

_CLASSES: Final[dict[str, type[Model]]] = {
    each.dialect.name: each for each in (OpenAIChat, OpenAIResponses, Anthropic, Gemini)
}


def find_model(name: str | Model, **settings: Any) -> Model:
    """Return the model that *name* means: ``PROVIDER:NAME``, or ``local``.

    :param name: or a model, which is returned as it is.
    :param settings: as for :class:`~syncagent.models.Model`.
    :raises ConfigurationError: no provider is called so, or a setting cannot work.
    """
    if isinstance(name, Model):
        if settings:
            raise ConfigurationError(
                f"{name!r} is a model already; give it {', '.join(settings)} when it "
                "is made"
            )
        return name
    endpoint = check_name(name)
    if endpoint is None:
        from .local import Local

        return Local(**settings)
    model = name.partition(":")[2]
    return _CLASSES[endpoint.dialect](model, endpoint=endpoint, **settings)


def check_name(name: str) -> Endpoint | None:
    """Return where the model that *name* means is, nothing if it is the local one.

    :raises ConfigurationError: no provider is called so.
    """
    provider, colon, model = name.partition(":")
    if provider == "local":
        if model:
            raise ConfigurationError("there is one local model; it is called local")
        return None
    endpoint = find_endpoint(provider, also=("local",))
    if not colon or not model:
        raise ConfigurationError(
            f"{name!r} names a provider and no model; it looks like "
            f"{endpoint.name}:{endpoint.example}"
        )
    return endpoint
