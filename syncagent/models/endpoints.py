"""Providers: their addresses, their dialects, and where their keys come from."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ..exceptions import ConfigurationError
from ..providers.quirks import Quirks

__all__ = [
    "COMPATIBLE",
    "ENDPOINTS",
    "Endpoint",
    "find_endpoint",
]

#: The end of an address that was copied with the path of a request.
_OPERATIONS: Final = ("/chat/completions", "/responses", "/messages", "/models")
#: ``/v1``, ``/v1beta``, ``/v1beta1``.
_VERSION: Final = re.compile(r"/v\d+(?:(?:alpha|beta)\d*)?\Z")


class Endpoint(msgspec.Struct, frozen=True):
    """One provider; its name is the part of a model string before the colon."""

    name: str
    #: The name of its wire dialect.
    dialect: str
    base_url: str
    #: Environment variables with its key; the first that is set counts.
    key_variables: tuple[str, ...] = ()
    #: Environment variables for another address; the first that is set counts.
    url_variables: tuple[str, ...] = ()
    needs_key: bool = True
    #: The name of a model, for error messages.
    example: str = ""
    #: How it differs from other providers with the same dialect.
    quirks: Quirks = Quirks()
    #: The path of an address that has none. Empty for OpenAI, whose own clients take
    #: the address as it is.
    default_path: str = ""
    #: The version that follows every address, unless it ends in one. The clients of
    #: these providers add it to addresses with a path, too.
    version: str = ""

    def find_key(self) -> str | None:
        """Return the key from the environment, or None."""
        found = (os.environ.get(name, "").strip() for name in self.key_variables)
        return next((key for key in found if key), None)

    def find_url(self, given: str | None = None) -> str:
        """Return the address, without the part that names the operation.

        :param given: the caller's address; it takes precedence over the environment.
        """
        found = (os.environ.get(name, "") for name in self.url_variables)
        addresses = (url.strip() for url in (given or "", *found, self.base_url))
        url = next((url for url in addresses if url), "").rstrip("/")
        for operation in _OPERATIONS:
            url = url.removesuffix(operation)
        has_path = "/" in url.partition("://")[2]
        if self.version:
            is_complete = has_path and _VERSION.search(url) is not None
            return url if is_complete else url + self.version
        return url if has_path else url + self.default_path

    def origin_of(self, base_url: str) -> str:
        """Return the origin of responses from *base_url*.

        It is the name of the endpoint, with a digest of the address if that is not the
        usual one: a gateway may pass requests to another provider. The address itself
        stays out of conversations, which may be stored and shown.
        """
        if not self.base_url or base_url == self.base_url:
            return self.name
        return f"{self.name}@{sha256(base_url.encode()).hexdigest()[:8]}"

    def missing_key(self) -> ConfigurationError:
        """Return the error for a missing key."""
        return ConfigurationError(
            f"{self.name} models need a key: set {' or '.join(self.key_variables)} in "
            "the environment, or pass api_key="
        )


#: Nearly all servers that are compatible with OpenAI's still have the old name of this
#: field, know no refusals, and continue the beginning of a response.
COMPATIBLE: Final = Quirks(
    field_names={"max_completion_tokens": "max_tokens"},
    has_refusals=False,
    prefill="continues",
)


def _chat(
    name: str,
    base_url: str,
    *,
    needs_key: bool = True,
    example: str = "",
    field_names: Mapping[str, str | None] | None = None,
    **quirks: Any,
) -> Endpoint:
    upper = name.upper().replace("-", "_")
    return Endpoint(
        name,
        "openai-chat",
        base_url,
        (f"{upper}_API_KEY",),
        (f"{upper}_BASE_URL",),
        needs_key,
        example,
        msgspec.structs.replace(
            COMPATIBLE,
            field_names={**COMPATIBLE.field_names, **(field_names or {})},
            **quirks,
        ),
        default_path=urlsplit(base_url).path,
    )


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
    _chat("openrouter", "https://openrouter.ai/api/v1", example="openai/gpt-6-luna"),
    _chat(
        "groq",
        "https://api.groq.com/openai/v1",
        example="openai/gpt-oss-120b",
        field_names={"response_format": None},  # not for all models, nor beside tools
    ),
    _chat(
        "deepseek",
        "https://api.deepseek.com/v1",
        example="deepseek-v4-flash",
        field_names={"response_format": None},  # it takes no schema there
    ),
    _chat(
        "mistral",
        "https://api.mistral.ai/v1",
        example="mistral-small-latest",
        field_names={"seed": "random_seed", "stream_options": None},
        has_short_ids=True,
    ),
    _chat("xai", "https://api.x.ai/v1", example="grok-4.5"),
    _chat(
        "ollama", "http://127.0.0.1:11434/v1", needs_key=False, example="qwen3:latest"
    ),
    _chat("vllm", "http://127.0.0.1:8000/v1", needs_key=False, example="Qwen/Qwen3-8B"),
    _chat("lmstudio", "http://127.0.0.1:1234/v1", needs_key=False, example="qwen3-8b"),
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
