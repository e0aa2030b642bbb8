"""One provider: its address, its dialect, its quirks, and where its key comes from."""

from __future__ import annotations

import os
import re
from hashlib import sha256
from typing import Final

import msgspec

from ..exceptions import ConfigurationError
from ..providers.quirks import Quirks

__all__ = ["Endpoint"]

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
