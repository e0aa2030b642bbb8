"""Mask keys, bearer tokens and passwords in text that people will see."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import takewhile
from typing import Any

from .exceptions import ConfigurationError

__all__ = [
    "MASK",
    "hidden",
    "hide",
    "is_secret_name",
    "mask",
    "mask_parts",
    "redact",
    "unhide",
    "without_half",
]

MASK = "***"
_SHORTEST_HIDDEN = 8
# A part of a secret shorter than this reveals nothing.
_SHORTEST_HALF = 3
# Without dots beside it, only a part longer than this is told from ordinary text.
_LONG_PART = 8
# With dots beside them, beginning and end of a secret together.
_SHORTEST_SHOWN = 4
# A longer part needs no dots.
_MAX_SHOWN = 20

# Every pattern below runs in linear time. Two rules ensure it: a part of unbounded
# length ends its match (nothing after it can fail and cause backtracking), and gaps
# between two parts have an upper bound. A look-ahead at the first letter is cheap, and
# halves the cost of the rest.

# Names whose value is secret; only the end of a name counts ("OPENAI_API_KEY").
_NAMES = (
    r"authorization|(?:api|access|account|private)[-_]?key|token|passw(?:or)?d"
    r"|passphrase|secret(?:[-_]?access)?(?:[-_]?key)?"
    # The shell's variable PWD is a directory.
    r"""|pwd(?!["']?[ \t]{0,8}[:=][ \t]{0,8}["']?(?:[/~]|[a-z]:\\))"""
)
_SECRET_NAME = re.compile(rf"(?:{_NAMES}|cookie)\Z", re.IGNORECASE)

# name: value, name=value, 'name': 'value', "name": "value", \"name\": \"value\".
# A closing quote stays; a bare value ends at a space, or at punctuation before one.
_NAMED = re.compile(
    rf"""
    ( (?=[apstAPST]) (?:{_NAMES}) \\{{0,4}}["']?
      [ \t]{{0,8}} (?: := | => | [:=](?![:=>]) ) [ \t]{{0,8}} )
    (?: (b?")(?!") [^"\\\n]* (?:\\. [^"\\\n]*)*
      | (b?')(?!') [^'\\\n]* (?:\\. [^'\\\n]*)*
      | (\\{{1,4}}["']) [^"'\\\n]+
      | (?! (?:none|null|true|false)\b )
        (?: (?:basic|bearer|digest|negotiate|token) [ \t]{{1,8}} )?
        [^\s"'\\,;&)}}\]>]+ (?: [,;)}}\]>](?=[^\s"',;)}}\]>]) [^\s"'\\,;&)}}\]>]* )*
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)

# Header pairs as http.client and WSGI print them: ('x-api-key', 'value').
_PAIRED = re.compile(
    r"""
    ( (?: authorization | api-key | cookie(?=["'],[ ]?b?["'][^\s"'=;,]{1,256}=) )
      ["'],[ ]?b?["'] )
    [^"'\n]+
    """,
    re.IGNORECASE | re.VERBOSE,
)

# Cookie: name=value; name=value. In prose no name with "=" follows.
_COOKIE = re.compile(
    r"""
    (cookie \\{0,4}["']? [ \t]{0,8} [:=] [ \t]{0,8})
    (?: (b?") [^\s=;,"'\\]{1,256} = [^"\n]*
      | (b?') [^\s=;,"'\\]{1,256} = [^'\n]*
      | (\\{1,4}["']) [^\s=;,"'\\]{1,256} = [^"'\\\n]*
      | [^\s=;,"']{1,256} = [^\s;\\]*
        (?: ;[ ]? [^\s=;,"']{1,256} = [^\s;\\]* )*
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)

# A private key with its line breaks, or with escapes for them; its end may be missing.
_PEM = re.compile(
    r"""
    -----BEGIN[ ](?:[A-Z0-9]{1,20}[ ]){0,4}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----
    (?: (?:\s|\\[nr]){1,4} [A-Za-z-]{1,20}:[ ][^\n\\]{0,200} ){0,4}
    [A-Za-z0-9+/=\s\\]*
    (?: -----END[ ][A-Z0-9 ]{0,60}----- )?
    """,
    re.VERBOSE,
)

_IN_QUERY = re.compile(r"""([?&](?:key|sig|signature)=)[^&\s"'#<>]+""", re.IGNORECASE)

_IN_URL = re.compile(r"""(?<=://)([^\s/@:"'<>?#]*):[^\s/"'<>?#]+@""")

_SCHEME = re.compile(
    r"\b(bearer|basic)([ \t]{1,8}|%20)([A-Za-z0-9._~+/=-]{3,})", re.IGNORECASE
)

# A key starts where a word starts, or after an escape such as \n or %20.
_KEY = re.compile(
    r"""
    (?=[ASdeghlnprstwxy]) (?: (?<![A-Za-z0-9]) | (?<=\\[nrt]) | (?<=%[0-9A-Fa-f]{2}) )
    (?: sk-(?:ant|proj|or|svcacct|admin)-[A-Za-z0-9_-]{4,}
      | AIza[A-Za-z0-9_-]{12,}
      | gsk_[A-Za-z0-9]{8,}
      | gh[oprsu]_[A-Za-z0-9]{8,}
      | github_pat_[A-Za-z0-9_]{8,}
      | hf_[A-Za-z0-9]{16,}
      | A[KS]IA[0-9A-Z]{12,}
      | (?:[sr]k_(?:live|test)|whsec|shpat|dckr_pat|lin_api|dop_v1|r8|npm)_
        [A-Za-z0-9_-]{16,}
      | (?:gl[a-z]{2,5}|xox[a-z]|xapp|pplx|nvapi|tvly)-[A-Za-z0-9_-]{16,}
      | (?:SG\.|ya29\.|hvs\.|pypi-AgE)[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]*)?
      | (eyJ[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*){0,4})
      | (sk-[A-Za-z0-9_-]{8,} | xai-[A-Za-z0-9-]{8,})
    )
    """,
    re.VERBOSE,
)

# Dots and asterisks in place of the middle of a key.
_DOTS = re.compile(r"[ (\[]{0,2}(\.{2,}|\u2026+|\*{2,}|\u2022{2,}|[xX]{3,})[ )\]]{0,2}")

# Words that follow "Bearer" in prose and in WWW-Authenticate.
_NOT_A_BEARER = re.compile(
    r"(?:auth\w*|credentials?|error|headers?|realm|schemes?|scope|tokens?)[.=-]*",
    re.IGNORECASE,
)


def _mask_scheme(match: re.Match[str]) -> str:
    scheme, gap, value = match.groups()
    if scheme.lower() == "basic":
        is_secret = _is_basic(value)
    elif scheme.islower():
        is_secret = _looks_random(value)
    else:
        is_secret = not _NOT_A_BEARER.fullmatch(value)
    return f"{scheme}{gap}{MASK}" if is_secret else match[0]


def _is_basic(value: str) -> bool:
    """Return whether *value* is base64 of ``user:password``, not a word of prose."""
    value = value.rstrip("=.")
    value = value[: len(value) - (len(value) % 4 == 1)]
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in decoded and min(decoded) >= 0x20


def _mask_key(match: re.Match[str]) -> str:
    web_token, doubtful = match.groups()
    if web_token is not None:  # three parts, or five, of which some may be empty
        return MASK if web_token.count(".") >= 2 else match[0]
    return MASK if doubtful is None or _looks_random(doubtful) else match[0]


def _looks_random(value: str) -> bool:
    return len(value) >= 20 or any(map(str.isdigit, value))


_KEY_HINTS = (
    *("sk-", "aiza", "gsk_", "xai-", "akia", "asia", "hf_"),
    *("github_pat_", "gho_", "ghp_", "ghr_", "ghs_", "ghu_"),
    *("k_live_", "k_test_", "whsec_", "shpat_", "dckr_pat_", "lin_api_", "dop_v1_"),
    *("xox", "xapp-", "pplx-", "nvapi-", "tvly-", "pypi-", "npm_", "r8_", "eyj"),
    *("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "sg.", "ya29.", "hvs."),
)

# A pattern is tried only if one of its hints is in the text (in lower case): most lines
# have none, and searching for a word is cheap.
_RULES: tuple[tuple[tuple[str, ...], re.Pattern[str], Any], ...] = (
    (("://",), _IN_URL, rf"\1:{MASK}@"),
    (("-----begin",), _PEM, MASK),
    (("cookie",), _COOKIE, rf"\1\2\3\4{MASK}"),
    (
        ("authorization", "key", "token", "passw", "passphrase", "secret", "pwd"),
        _NAMED,
        rf"\1\2\3\4{MASK}",
    ),
    (("authorization", "api-key", "cookie"), _PAIRED, rf"\1{MASK}"),
    (("key=", "sig=", "signature="), _IN_QUERY, rf"\1{MASK}"),
    (("bearer", "basic"), _SCHEME, _mask_scheme),
    (_KEY_HINTS, _KEY, _mask_key),
)

# Only whole-dict operations touch it, so threads and forks need no lock.
_hidden: dict[str, None] = {}


def hide(secret: str) -> None:
    """Mask *secret* in every log record from now on, wherever it appears.

    :param secret: the exact value; its URL-quoted and escaped forms are masked, too.
    :raises ConfigurationError: it is shorter than 8 characters; masking it would
        damage ordinary text.
    """
    if not isinstance(secret, str):
        raise TypeError(f"secret must be a str, not {type(secret).__name__}")
    if len(secret.strip()) < _SHORTEST_HIDDEN:
        raise ConfigurationError(
            f"a secret of {len(secret.strip())} characters cannot be hidden, because "
            "masking so few characters would damage ordinary text; hide values of "
            f"at least {_SHORTEST_HIDDEN} characters"
        )
    _hidden[secret] = None


def hidden() -> tuple[str, ...]:
    """Return the values passed to :func:`hide`."""
    return tuple(_hidden)


def unhide(secret: str) -> None:
    """Forget a value passed to :func:`hide`, for example a rotated key."""
    _hidden.pop(secret, None)


def mask(text: str, secrets: Iterable[str]) -> str:
    """Return *text* with *secrets* masked: verbatim, URL-quoted and escaped."""
    known = tuple(filter(None, secrets))
    return _pattern(known).sub(MASK, text) if known else text


def mask_parts(text: str, secrets: Iterable[str]) -> str:
    """Return *text* with *secrets* masked, also where it shows only a part of one.

    Servers repeat a key as ``zK9q...e-88`` or as ``****e-88``, or cut it off.
    """
    known = tuple(filter(None, secrets))
    text = mask(text, known)
    # Without those that have spaces ("Bearer KEY"): their words are secrets, too.
    found = [form for secret in known for form in _forms(secret) if " " not in form]
    forms = {form: None for form in found if len(form) > _LONG_PART}
    for form in forms:
        if form[:_LONG_PART] in text:
            text = _without_beginnings(text, form)
        if form[-_LONG_PART:] in text:
            text = _without_beginnings(text[::-1], form[::-1])[::-1]
    return _without_shortened(text, forms) if forms else text


def _without_beginnings(text: str, secret: str) -> str:
    """Mask parts of *text* with which *secret* begins, if they look like a key."""
    kept: list[str] = []
    done, start = 0, text.find(secret[:_LONG_PART])
    while start >= 0:
        pairs = zip(secret, text[start : start + len(secret)], strict=False)
        size = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if _looks_random(secret[:size]):
            kept += (text[done:start], MASK)
            done = start + size
        start = text.find(secret[:_LONG_PART], max(done, start + 1))
    return "".join([*kept, text[done:]])


def _without_shortened(text: str, secrets: Iterable[str]) -> str:
    """Mask the beginning and the end of a secret around dots or asterisks."""
    secrets, sizes = tuple(secrets), range(_MAX_SHOWN, 0, -1)
    beginnings = {secret[:size] for secret in secrets for size in sizes}
    ends = {secret[-size:] for secret in secrets for size in sizes}
    kept: list[str] = []
    done = 0
    for dots in _DOTS.finditer(text):
        start, end = dots.span()
        before = text[max(done, start - _MAX_SHOWN) : start]
        after = text[end : end + _MAX_SHOWN]
        head = next((size for size in sizes if before[-size:] in beginnings), 0)
        tail = next((size for size in sizes if after[:size] in ends), 0)
        head, tail = min(head, len(before)), min(tail, len(after))
        if head + tail >= _SHORTEST_SHOWN:
            # A space or bracket that is not between two parts stays.
            start, end = dots.start(0 if head else 1), dots.end(0 if tail else 1)
            kept += (text[done : start - head], MASK)
            done = end + tail
    return "".join([*kept, text[done:]])


def without_half(text: str, secrets: Iterable[str]) -> str:
    """Return *text*, which was cut off, without a part of a secret at its end."""
    longest = 0
    for secret in secrets:
        for form in _forms(secret):
            for size in range(min(len(form) - 1, len(text)), longest, -1):
                if text.endswith(form[:size]):
                    longest = size
                    break
    return text[: len(text) - longest] if longest >= _SHORTEST_HALF else text


def _pattern(secrets: tuple[str, ...]) -> re.Pattern[str]:
    forms = {form for secret in secrets for form in _forms(secret)}
    # Longest first: a secret that contains another one is masked as a whole.
    return re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))


_hidden_pattern = lru_cache(maxsize=4)(_pattern)


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms in which a secret may appear."""
    from urllib.parse import quote, quote_plus

    as_json = json.dumps(secret)[1:-1]
    yield from (secret, repr(secret)[1:-1], as_json, as_json.replace("/", r"\/"))
    yield quote(secret, safe="", errors="replace")
    yield quote_plus(secret, errors="replace")


def redact(text: str) -> str:
    """Return *text* with everything that looks like a credential masked."""
    secrets = tuple(_hidden)
    if secrets:
        text = _hidden_pattern(secrets).sub(MASK, text)
    lowered = text.lower()
    for hints, pattern, replacement in _RULES:
        for hint in hints:
            if hint in lowered:
                text = pattern.sub(replacement, text)
                break
    return text


def is_secret_name(name: str) -> bool:
    """Return whether *name* is that of a credential ("OPENAI_API_KEY")."""
    return _SECRET_NAME.search(name) is not None
