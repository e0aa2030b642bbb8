"""The credentials of a model: a key, a function that returns one, or an auth object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from operator import itemgetter
from typing import Any, Final, NoReturn, TypeVar

from requests import PreparedRequest
from requests.auth import AuthBase, HTTPBasicAuth, HTTPDigestAuth

from ..exceptions import ConfigurationError
from ..transport.prepared import is_long_enough, is_secret_header, secret_parts
from ..transport.slow_auth import NoCredentials, SlowAuth, summary_of
from .endpoint import Endpoint

__all__ = [
    "Credentials",
    "FreshCredentials",
    "HeaderFunction",
    "Key",
    "Place",
    "SecretHeaders",
    "find_key",
    "make_credentials",
    "secrets_of",
    "split_headers",
]

_T = TypeVar("_T")

#: A key, or a function that returns one.
Key = str | Callable[[], str]

#: A function that returns the header for a value, and the scheme before the value.
Place = Callable[[str], tuple[str, str]]

#: The number of past values that are still masked.
_KEPT: Final = 16


class _NotPickled:
    """A mix-in that keeps a key out of reprs and pickles."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "keys are not pickled; make the model in the other process, with the key "
            "from its environment"
        )


class Credentials(_NotPickled, AuthBase):
    """A key, in the header that its provider expects.

    :param key: appears in no repr, log or pickle.
    """

    def __init__(self, key: str, header: str = "Authorization", scheme: str = "Bearer"):
        self._key = key
        self._header = header
        self._scheme = scheme

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key, which must not be shown."""
        return (self._key,)

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        value = f"{self._scheme} {self._key}" if self._scheme else self._key
        request.headers[self._header] = value
        return request


class SecretHeaders(_NotPickled, dict[str, str]):
    """Constant headers with a credential among them."""


class HeaderFunction:
    """A user's function for the value of a header.

    :param name: its name in error messages.
    :param place: returns the header for a value, and the scheme before the value.
    """

    def __init__(self, name: str, function: Callable[[], str], place: Place) -> None:
        self._name = name
        self.function = function
        self.place = place

    def ask(self) -> str:
        """Return the value.

        :raises NoCredentials: the function failed, or returned something unusable.
        """
        value: Any = _call(self._name, self.function)
        if not isinstance(value, str):
            problem = f"{type(value).__name__} in place of a str"
        elif not value.strip():
            problem = "an empty string"
        elif not value.isprintable():
            problem = "a string with a line break or a control character; strip() it"
        else:
            return value
        raise NoCredentials(f"{self._name} returned {problem}")


class FreshCredentials(_NotPickled, SlowAuth):
    """Credentials that are fetched again for every attempt.

    :param functions: return the values of headers.
    :param auth: the user's own object, as :mod:`requests` takes it; called last.
    """

    def __init__(
        self,
        functions: tuple[HeaderFunction, ...],
        auth: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__()
        self._functions = functions
        self._auth = auth
        #: Values, and numbers that tell which ones were used last. Adding to a dict and
        #: removing from it are atomic.
        self._seen: dict[str, int] = {}
        self._numbers = count()

    def ask(self) -> list[str]:
        values = [function.ask() for function in self._functions]
        self._remember(*values)
        return values

    def add(self, request: PreparedRequest, values: list[str]) -> PreparedRequest:
        for function, value in zip(self._functions, values, strict=True):
            header, scheme = function.place(value)
            request.headers[header] = f"{scheme} {value}" if scheme else value
        if self._auth is None:
            return request
        before = dict(request.headers)
        signed = _call("the auth object", self._auth, request)
        if not isinstance(signed, PreparedRequest):
            kind = type(signed).__name__
            raise NoCredentials(
                f"the auth object returned {kind} in place of the request"
            )
        for name, text in signed.headers.items():
            if before.get(name) != text:
                self._remember(*secret_parts(text))
        return signed

    def refresh(self) -> bool:
        sources = [*(function.function for function in self._functions), self._auth]
        methods = [getattr(source, "refresh", None) for source in sources]
        found = [method for method in methods if callable(method)]
        for method in found:
            _call("refresh()", method)
        return bool(found)

    @property
    def secrets(self) -> tuple[str, ...]:
        return (*self._seen, *getattr(self._auth, "secrets", ()))

    def _remember(self, *values: str) -> None:
        for value in filter(is_long_enough, values):
            self._seen[value] = next(self._numbers)
        by_age = sorted(self._seen.copy().items(), key=itemgetter(1))
        for value, _ in by_age[:-_KEPT]:
            self._seen.pop(value, None)


def find_key(given: Key | None, auth: object, endpoint: Endpoint) -> Key | None:
    """Return the key of a model, if there is one.

    :param given: takes precedence over the environment.
    :param auth: used in place of a key.
    :raises ConfigurationError: there is no key, and the endpoint needs one.
    """
    if auth is not None:
        if given is not None:
            raise ConfigurationError("pass api_key= or auth=, not both")
        if not callable(auth):
            raise TypeError(
                "auth must be an object that adds credentials to a request, as in "
                f"requests; got {type(auth).__name__}"
            )
        return None
    if callable(given):
        return given
    kind = type(given)
    if not issubclass(kind, (str, type(None))):
        raise TypeError(f"api_key must be a str or a function, got {kind.__name__}")
    key = (given or "").strip() or endpoint.find_key()
    if key is None and endpoint.needs_key:
        raise endpoint.missing_key()
    return key


def make_credentials(
    key: Key | None,
    place: Place,
    *,
    auth: Callable[..., Any] | None = None,
    headers: Mapping[str, Callable[[], str]] | None = None,
) -> AuthBase | None:
    """Return the credentials for the arguments of a model.

    :param place: returns the header for a key, and the scheme before it.
    :param auth: used in place of a key.
    :param headers: functions for the values of more headers.
    """
    functions = [
        HeaderFunction(
            f"the function in headers[{name!r}]", function, partial(_bare, name)
        )
        for name, function in (headers or {}).items()
    ]
    if callable(key):
        functions.append(HeaderFunction("the api_key function", key, place))
    static: AuthBase | Callable[..., Any] | None = auth
    if isinstance(key, str):
        static = Credentials(key, *place(key))
    # None of these blocks, and digest authentication keeps its state per thread.
    is_quick = isinstance(static, (Credentials, HTTPDigestAuth)) or (
        type(static) is HTTPBasicAuth
    )
    if not functions and (static is None or is_quick):
        return static  # type: ignore[return-value]
    if isinstance(static, HTTPDigestAuth):
        raise ConfigurationError(
            "HTTPDigestAuth does not work together with functions in headers=; pass "
            "constant headers, or another auth="
        )
    return FreshCredentials(tuple(functions), static)


def _bare(header: str, value: str) -> tuple[str, str]:
    return header, ""


def split_headers(
    headers: Mapping[str, Key] | None,
) -> tuple[dict[str, str], dict[str, Callable[[], str]]]:
    """Return the headers with a constant value, and those with a function.

    :raises TypeError: a value is neither.
    """
    constant: dict[str, str] = {}
    functions: dict[str, Callable[[], str]] = {}
    given: Mapping[str, object] = headers or {}
    for name, value in given.items():
        if isinstance(value, str):
            constant[name] = value
        elif callable(value):
            functions[name] = value
        else:
            kind = type(value).__name__
            raise TypeError(
                f"headers[{name!r}] must be a str or a function, got {kind}"
            )
    if any(map(is_secret_header, constant)):
        constant = SecretHeaders(constant)
    return constant, functions


def secrets_of(auth: object, headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of credentials and headers that must not be shown."""
    secrets: list[str] = [*getattr(auth, "secrets", ())]
    for name, value in headers.items():
        if is_secret_header(name):
            secrets += filter(is_long_enough, secret_parts(value))
    return tuple(secrets)


def _call(place: str, function: Callable[..., _T], *args: Any) -> _T:
    """Call a user's function.

    :raises NoCredentials: it raised an exception, which is the cause.
    """
    try:
        return function(*args)
    except BaseException as error:
        failed = NoCredentials(f"{place} raised {summary_of(error)}")
        trace = error.__traceback__
        # Without this frame, which holds the request.
        failed.__cause__ = error.with_traceback(trace.tb_next if trace else None)
    raise failed
