"""All providers, by the names in model strings."""

from __future__ import annotations

import difflib
import re
from typing import Final

from ..exceptions import ConfigurationError
from ..providers.quirks import Quirks
from .clouds import CLOUD_ENDPOINTS
from .compatible import COMPATIBLE_ENDPOINTS
from .endpoint import Endpoint

__all__ = ["ENDPOINTS", "find_endpoint", "register_endpoint"]

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
        token_variables=("ANTHROPIC_AUTH_TOKEN",),
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
    Endpoint(
        "perplexity",
        "openai-responses",
        "https://api.perplexity.ai/v1",
        ("PERPLEXITY_API_KEY",),
        ("PERPLEXITY_BASE_URL",),
        example="perplexity/sonar",
    ),
    *COMPATIBLE_ENDPOINTS,
    *CLOUD_ENDPOINTS,
)

#: All known providers, by name.
ENDPOINTS = {endpoint.name: endpoint for endpoint in _ALL}


_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
_DIALECTS: Final = frozenset(endpoint.dialect for endpoint in _ALL)
#: Providers by the prefixes of their models' names.
_PREFIXES: Final = {
    "gpt-": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
    "gemini-": "gemini",
    "google": "gemini",
}


def find_endpoint(
    name: str, model: str = "", *, also: tuple[str, ...] = ()
) -> Endpoint:
    """Return the endpoint of that name.

    :param model: the name of a model; it selects one of several endpoints of the same
        provider.
    :param also: more valid names, for the error message.
    :raises ConfigurationError: no provider has that name; the message suggests some.
    """
    endpoint = ENDPOINTS.get(name)
    if endpoint is None:
        names = [*ENDPOINTS, *also]
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.65)
        prefix = next(filter(name.startswith, _PREFIXES), None)
        if prefix is not None:
            near = [f"{_PREFIXES[prefix]}:{name}"]
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigurationError(
            f"no provider is called {name!r}; {hint}'syncagent models' lists all, and "
            "register_endpoint() adds one"
        )
    found = (face for form, face in endpoint.faces.items() if re.match(form, model))
    return ENDPOINTS[next(found, name)]


def register_endpoint(endpoint: Endpoint) -> None:
    """Make *endpoint* available to model strings, ``find_model()`` and agents.

    :raises ConfigurationError: its name is taken or invalid, or its dialect or address
        is.
    """
    if not isinstance(endpoint, Endpoint):
        raise ConfigurationError(
            f"register_endpoint() takes an Endpoint; got {endpoint!r:.80}"
        )
    if not _NAME.fullmatch(endpoint.name) or endpoint.name == "local":
        raise ConfigurationError(
            "the name of an endpoint must be lower-case letters, digits and dashes, "
            f"and not 'local'; got {endpoint.name!r}"
        )
    if ENDPOINTS.get(endpoint.name, endpoint) != endpoint:
        raise ConfigurationError(
            f"another endpoint has the name {endpoint.name!r}; choose another name"
        )
    if endpoint.dialect not in _DIALECTS:
        raise ConfigurationError(
            f"no dialect is called {endpoint.dialect!r}; the dialects are "
            f"{', '.join(sorted(_DIALECTS))}"
        )
    has_url = endpoint.base_url.startswith(("https://", "http://"))
    if not has_url and (endpoint.base_url or not endpoint.url_variables):
        raise ConfigurationError(
            "the base_url of an endpoint must begin with https://, or be empty if "
            f"there are url_variables; got {endpoint.base_url!r}"
        )
    try:
        endpoint.base_url.format(**dict.fromkeys(endpoint.url_parts, ""))
        "".join(endpoint.paths or ()).format(model="")
    except (LookupError, ValueError) as error:
        raise ConfigurationError(
            "braces in the base_url of an endpoint must name its url_parts, and braces "
            f"in its paths must be {{model}}; got {error}"
        ) from None
    ENDPOINTS[endpoint.name] = endpoint
