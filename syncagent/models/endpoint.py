"""One provider: its address, its dialect, its quirks, and where its key comes from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

import msgspec

from ..exceptions import ConfigurationError
from ..providers.quirks import Quirks

__all__ = ["Endpoint", "UrlPart", "first_set"]

#: The end of an address that was copied with the path of a request.
_OPERATIONS: Final = ("/chat/completions", "/responses", "/messages", "/models")
#: ``/v1``, ``/v1beta``, ``/v1beta1``.
_VERSION: Final = re.compile(r"/v\d+(?:(?:alpha|beta)\d*)?\Z")
#: A value that cannot change the rest of an address: "evil.example/#" would be a host.
_PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")


def first_set(variables: Iterable[str]) -> str:
    """Return the first environment variable that is set, or an empty string."""
    values = (os.environ.get(name, "").strip() for name in variables)
    return next(filter(None, values), "")


class UrlPart(msgspec.Struct, frozen=True):
    """A part of an address that comes from the environment, such as a region."""

    #: Environment variables; the first that is set counts.
    variables: tuple[str, ...]
    default: str = ""
    #: The text in the address, with the value in place of ``{}``.
    form: str = "{}"
    #: The text in the address for values that have another form.
    forms: Mapping[str, str] = {}

    def find(self) -> str | None:
        """Return the text in the address, or None if no variable is set.

        :raises ConfigurationError: the value would change the rest of the address.
        """
        value = first_set(self.variables) or self.default
        if not value:
            return None
        if not _PART.fullmatch(value):
            raise ConfigurationError(
                f"{' or '.join(self.variables)} is a part of an address, which has "
                f"letters, digits, dots and dashes; got {value!r:.80}"
            )
        return self.forms.get(value) or self.form.format(value)


class Endpoint(msgspec.Struct, frozen=True):
    """One provider; its name is the part of a model string before the colon."""

    name: str
    #: The name of its wire dialect.
    dialect: str
    #: Its usual address; names in braces are those of ``url_parts``. Empty if every
    #: user has another address.
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
    #: The path for an address without one. Empty for OpenAI, whose own clients take the
    #: address as it is.
    default_path: str = ""
    #: The version at the end of every address; an address that ends in a version keeps
    #: its own. The clients of these providers add it after a path, too.
    version: str = ""
    #: The parts of the address that come from the environment, by name.
    url_parts: Mapping[str, UrlPart] = {}
    #: The paths of streamed and of whole responses, in place of the dialect's own;
    #: ``{model}`` stands for the name of the model.
    paths: tuple[str, str] | None = None
    #: The header with the key, and the scheme before the key, in place of the dialect's
    #: own.
    key_header: str = ""
    key_scheme: str = ""
    #: Environment variables with a bearer token; it goes into the header
    #: ``Authorization``.
    token_variables: tuple[str, ...] = ()
    #: Keys that begin with one of these are bearer tokens, wherever they come from.
    token_prefixes: tuple[str, ...] = ()
    #: True to sign requests with AWS credentials if there is no key.
    is_aws: bool = False
    #: Names of other endpoints of the same provider, by the pattern of a model's name.
    #: A model takes the first endpoint whose pattern matches.
    faces: Mapping[str, str] = {}
    #: Advice on passing credentials, for the error message if there are none.
    advice: str = "pass api_key="

    def find_key(self) -> str | None:
        """Return the key or token from the environment, or None."""
        return first_set((*self.key_variables, *self.token_variables)) or None

    def is_token(self, key: str) -> bool:
        """Return whether *key* is a bearer token, which has a header of its own."""
        if key.startswith(self.token_prefixes):
            return True
        tokens = (os.environ.get(name, "").strip() for name in self.token_variables)
        return key in tokens

    def find_url(self, given: str | None = None) -> str:
        """Return the address, without the part that names the operation.

        :param given: the caller's address; it takes precedence over the environment.
        :raises ConfigurationError: the address, or a part of it, is unknown.
        """
        found = (given or "").strip() or first_set(self.url_variables)
        url = found.rstrip("/") or self._usual_url()
        for operation in _OPERATIONS:
            url = url.removesuffix(operation)
        has_path = "/" in url.partition("://")[2]
        if self.version:
            is_complete = has_path and _VERSION.search(url) is not None
            return url if is_complete else url + self.version
        return url if has_path else url + self.default_path

    def _usual_url(self) -> str:
        if not self.base_url and self.url_variables:
            raise ConfigurationError(
                f"{self.name} models need an address: set "
                f"{' or '.join(self.url_variables)} in the environment, or pass "
                "base_url="
            )
        parts = {name: part.find() for name, part in self.url_parts.items()}
        for name, value in parts.items():
            if value is None:
                variables = " or ".join(self.url_parts[name].variables)
                raise ConfigurationError(
                    f"{self.name} models need a {name}: set {variables} in the "
                    "environment, or pass base_url="
                )
        return self.base_url.format(**parts) if parts else self.base_url

    def issuer_of(self, base_url: str) -> str:
        """Return the issuer of responses from *base_url*.

        It is the name of the endpoint, with a digest of the address if that is not the
        usual one: a gateway may pass requests to another provider. The address itself
        stays out of conversations, which may be stored and shown.
        """
        if base_url in ("", self.base_url):
            return self.name
        return f"{self.name}@{sha256(base_url.encode()).hexdigest()[:8]}"

    def missing_key(self) -> ConfigurationError:
        """Return the error for a missing key."""
        names = " or ".join((*self.key_variables, *self.token_variables))
        variables = f"set {names} in the environment, or " if names else ""
        return ConfigurationError(
            f"{self.name} models need a key: {variables}{self.advice}"
        )
