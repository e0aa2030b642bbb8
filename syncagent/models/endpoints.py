"""All providers, by the names in model strings."""

from __future__ import annotations

import difflib
from typing import Final

from ..exceptions import ConfigurationError
from ..providers.quirks import Quirks
from .compatible import COMPATIBLE_ENDPOINTS
from .endpoint import Endpoint

__all__ = ["ENDPOINTS", "find_endpoint"]

_ALL = (
    Endpoint(
        "openai",
        "openai-responses",
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        ("OPENAI_BASE_URL",),
        example="gpt-6-luna",
    ),
    Endpoint(
        "openai-chat",
        "openai-chat",
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        ("OPENAI_BASE_URL",),
        example="gpt-6-luna",
    ),
    Endpoint(
        "anthropic",
        "anthropic",
        "https://api.anthropic.com/v1",
        ("ANTHROPIC_API_KEY",),
        ("ANTHROPIC_BASE_URL",),
        example="claude-sonnet-5-5",
        version="/v1",
    ),
    Endpoint(
        "gemini",
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ("GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"),
        example="gemini-3.8-flash",
        version="/v1beta",
    ),
    Endpoint(
        "xai",
        "openai-responses",
        "https://api.x.ai/v1",
        ("XAI_API_KEY",),
        ("XAI_BASE_URL",),
        example="grok-4.5",
        quirks=Quirks(
            field_names={"blocked_domains": "excluded_domains", "container": None},
            has_client_tools=False,
        ),
        default_path="/v1",
    ),
    *COMPATIBLE_ENDPOINTS,
)

#: All known providers, by name.
ENDPOINTS = {endpoint.name: endpoint for endpoint in _ALL}


#: Providers by the prefixes of their models' names.
_PREFIXES: Final = {
    "gpt-": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
    "gemini-": "gemini",
    "google": "gemini",
}


def find_endpoint(name: str, *, also: tuple[str, ...] = ()) -> Endpoint:
    """Return the endpoint of that name.

    :param also: more valid names, for the error message.
    :raises ConfigurationError: no provider has that name; the message suggests some.
    """
    endpoint = ENDPOINTS.get(name)
    if endpoint is None:
        names = [*ENDPOINTS, *also]
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        prefix = next(filter(name.startswith, _PREFIXES), None)
        if prefix is not None:
            near = [f"{_PREFIXES[prefix]}:{name}"]
        hint = f"did you mean {' or '.join(near)}? Known" if near else "known"
        raise ConfigurationError(
            f"no provider is called {name!r}; {hint} are {', '.join(names)}"
        )
    return endpoint
