"""Credentials become unreadable, ordinary text stays."""

import copy
import logging
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncagent import ConfigurationError, logs

MEGABYTE_S = 5.0

BODY = "4eC39HqLyjWDarjtT1zdp7dc4eC39HqLyjWD"
PEM = "-----BEGIN PRIVATE KEY-----"

SECRETS = [
    ("sent Bearer abc.DEF-123_x", "sent Bearer ***"),
    ("sent Bearer topsecret now", "sent Bearer *** now"),
    ("curl -H bearer%20a1b2c3d4", "curl -H bearer%20***"),
    ("Basic dXNlcjpwYXNz.", "Basic ***"),
    ("key sk-abcdefgh12345678 used", "key *** used"),
    ("sk-ant-api03-AbC_d-9", "***"),
    ("'sk-proj-AbCdEfGh'", "'***'"),
    ("repr 'x\\nsk-ant-api03-AbCd'", "repr 'x\\n***'"),
    ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "***"),
    ("gsk_0123456789abcdefghij", "***"),
    ("xai-0123456789abcdefghij", "***"),
    ("ghp_0123456789abcdefghij gho_0123456789abcdefghij", "*** ***"),
    ("github_pat_11AAAAAAA0123456789_abc", "***"),
    ("AKIAIOSFODNN7EXAMPLE", "***"),
    ("Authorization: Bearer abc", "Authorization: ***"),
    ("authorization: Basic zzz, next", "authorization: ***, next"),
    ("X-Api-Key: abc; q=1", "X-Api-Key: ***; q=1"),
    ("x-goog-api-key=abc", "x-goog-api-key=***"),
    ("OPENAI_API_KEY=abc python", "OPENAI_API_KEY=*** python"),
    ("{'api-key': 'a b', 'n': 1}", "{'api-key': '***', 'n': 1}"),
    ('{"api_key":"a\\"b","n":1}', '{"api_key":"***","n":1}'),
    (r"{\"password\": \"abc\", \"n\": 1}", r"{\"password\": \"***\", \"n\": 1}"),
    ("{b'x-api-key': b'abc'}", "{b'x-api-key': b'***'}"),
    ("[('X-Api-Key', 'abc'), ('n', '1')]", "[('X-Api-Key', '***'), ('n', '1')]"),
    ("login(password=p,w!)", "login(password=***)"),
    ("accessToken := abc", "accessToken := ***"),
    ("secret='unfinished", "secret='***"),
    ("GET /v1?a=1&key=abc&b=2", "GET /v1?a=1&key=***&b=2"),
    ("GET /v1?access_token=abc#top", "GET /v1?access_token=***"),
    ("postgres://me:p@ss@db:5432/x", "postgres://me:***@db:5432/x"),
    ("redis://:abc@cache", "redis://:***@cache"),
    # L16
    ("got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3 now", "got *** now"),
    ("eyJhbGciOiJkaXIiLCJlbmMiOiJ9..48V1_ALb6US04U3b.5eym8TW.XFBo", "***"),
    (f"{PEM}\nMIIEvQ+/=\nAbC=\n{PEM.replace('BEGIN', 'END')} end", "*** end"),
    (f"key={PEM!s}\\nMIIEvQ+/=\\n", "key=***"),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
        "DEK-Info: AES-128-CBC,0A1B\n\nMIIEvQ+/=\n-----END RSA PRIVATE KEY-----",
        "***",
    ),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQdGBF\n=abcd\n", "***"),
    ("Cookie: sid=abc123; theme=dark", "Cookie: ***"),
    ("Set-Cookie: sid=abc123; HttpOnly", "Set-Cookie: ***; HttpOnly"),
    ("{'Cookie': 'sid=abc; b=c', 'n': 1}", "{'Cookie': '***', 'n': 1}"),
    (r"{\"cookie\": \"sid=abc\", \"n\": 1}", r"{\"cookie\": \"***\", \"n\": 1}"),
    ('{"cookie":"sid=abc","n":1}', '{"cookie":"***","n":1}'),
    ("[('Set-Cookie', 'a=b; Path=/')]", "[('Set-Cookie', '***')]"),
    (r"'Set-Cookie: a=b\r\nSet-Cookie: c=d'", r"'Set-Cookie: ***\r\nSet-Cookie: ***"),
    ("header: Set-Cookie: a=b", "header: Set-Cookie: ***"),
    ("Server=db;Uid=me;Pwd=abc;Database=x", "Server=db;Uid=me;Pwd=***"),
    ("login?user=me&pwd=abc&n=1", "login?user=me&pwd=***&n=1"),
    ("private_key=abc privateKey: abc", "private_key=*** privateKey: ***"),
    ("AccountName=x;AccountKey=abc==", "AccountName=x;AccountKey=***"),
    *[
        (f"<{prefix}{BODY}>", "<***>")
        for prefix in (
            *("sk_live_", "sk_test_", "rk_live_", "whsec_", "shpat_", "npm_"),
            *("xoxb-17653672481-19874698323-", "xoxp-", "xapp-1-A0123456789-"),
            *("glpat-", "glrt-", "pypi-AgE", "ya29.", "hvs.", "dop_v1_", "r8_"),
            *("dckr_pat_", "lin_api_", "pplx-", "nvapi-", "tvly-", f"SG.{BODY}."),
        )
    ],
]

ORDINARY = [
    "the task-force is risk-averse about disk-space-usage",
    "token budget 500, max_tokens=500, tokens: 12, tokenizer: bpe",
    "sk-learn and sk-lego-tools are packages; desk-1234567890 is not",
    "Basic authentication, Basic JavaScript, basic understanding",
    "Bearer token expected, bearer of news, standard-bearer should",
    'WWW-Authenticate: Bearer realm="api"',
    "api_key=None password='' token=null secret: false",
    "if token == other: std::token::next",
    "the secret is out; a password is needed; authorization failed",
    "https://example.com:8080/a@b?email=a@b.c",
    "monkey=banana turkey=1 ?keyboard=us",
    "xai-explained ghp_short AKIA hf_short",
    "PWD=/home/me OLDPWD=/tmp pwd: ~/src 'pwd': '/srv'",
    "Cookie: a small file; cookies=2; set_cookie=True; the cookie monster",
    "['Cookie', 'CookieJar'], ('HTTP_COOKIE', 'x')",
    "eyJhbGciOiJIUzI1NiJ9 alone, eyJ, eyJh.b",
    "-----BEGIN CERTIFICATE-----\nMIIEvQ\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIEvQ\n-----END PUBLIC KEY-----",
    "sk_live_ and xoxb- and glpat- are prefixes; msg.send(message.text)",
    "npm_config_registry npm_lifecycle_event pypi-server-on-a-machine whsec_",
    "the private key is private; private keys: none; r8_short SG.de",
]


@pytest.mark.parametrize(("text", "expected"), SECRETS)
def test_a_credential_is_masked_and_its_surroundings_stay(text, expected):
    """Each shape of key, header, assignment and URL loses exactly its secret."""
    assert logs.redact(text) == expected
    assert logs.redact(expected) == expected


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text):
    """Words that only resemble a credential are not touched."""
    assert logs.redact(text) == text


@given(st.text("abcdefghijklmnopqrstuvwxyz ,.!?()\n"))
@settings(deadline=None)
def test_prose_is_never_changed(text):
    """Without digits, capitals and assignments there is nothing to hide."""
    assert logs.redact(text) == text


@pytest.mark.parametrize(
    "pieces",
    [
        ("x",),
        (" ",),
        ("token",),
        ("token ",),
        ("token=",),
        ("token='",),
        ("token=\\",),
        ('api_key":"\\',),
        ("password=", ","),
        ("password=", "a,"),
        ("Bearer ",),
        ("bearer a",),
        ("Basic ",),
        ("Basic " + "A" * 1000,),
        ("-sk-",),
        ("-sk-a",),
        ("sk-", "a-"),
        ("AIza-",),
        ("://",),
        ("://", "a:"),
        ("://a:", "b@"),
        ("&key=",),
        ("authorization','",),
        ("\\",),
        ("-eyJ",),
        ("eyJ", "a"),
        ("-eyJ" + "a" * 20 + ".",),
        (PEM,),
        (PEM, "A"),
        (PEM, "\nA-b: c"),
        (f"{PEM}\n",),
        ("-----BEGIN ",),
        ("cookie:",),
        ("cookie:" + "a" * 300,),
        ("cookie: ", "a=b; "),
        ("cookie', '" + "a" * 300,),
        ("cookie: a=b;", "a" * 300 + ";"),
        ("pwd=",),
        ("pwd= '",),
        ("private_key ",),
        ("xoxb-",),
        ("SG.",),
        ("-SG." + "a" * 20,),
        ("glpat-",),
    ],
)
def test_a_megabyte_takes_no_longer_than_its_length(pieces):
    """No input makes a pattern go back and forth: 1 MB is done in seconds."""
    head, unit = pieces if len(pieces) == 2 else ("", pieces[0])
    text = head + unit * (1_000_000 // len(unit))
    begin = time.perf_counter()
    logs.redact(text)
    assert time.perf_counter() - begin < MEGABYTE_S


def test_a_hidden_value_is_masked_in_every_form():
    """hide() covers the value itself, quoted for a URL, and escaped."""
    logs.hide('p&ss "wörd"')
    try:
        text = 'p&ss "wörd" p%26ss%20%22w%C3%B6rd%22 p&ss \\"w\\u00f6rd\\"'
        assert logs.redact(text) == "*** *** ***"
    finally:
        logs.unhide('p&ss "wörd"')
    assert logs.redact('p&ss "wörd"') == 'p&ss "wörd"'


def test_a_hidden_value_inside_another_does_not_uncover_it():
    """The longer of two overlapping secrets is masked as a whole."""
    for secret in ("abcdefgh", "abcdefghijkl"):
        logs.hide(secret)
    try:
        assert logs.redact("is abcdefghijkl.") == "is ***."
    finally:
        for secret in ("abcdefgh", "abcdefghijkl"):
            logs.unhide(secret)


@pytest.mark.parametrize("secret", ["", "short", "   abc   ", " " * 20])
def test_a_value_too_short_to_hide_is_refused(secret):
    """Masking a few letters would damage every line."""
    with pytest.raises(ConfigurationError, match="at least 8 characters") as caught:
        logs.hide(secret)
    assert "short" not in str(caught.value)


def test_hiding_what_is_no_text_is_a_type_error():
    """The message names the type, never the value."""
    with pytest.raises(TypeError, match="must be a str, not bytes") as caught:
        logs.hide(b"0123456789")
    assert "0123456789" not in str(caught.value)


class Credentials:
    """An object of the user's whose repr shows too much."""

    def __repr__(self):
        return "Credentials(password='abc')"


def leaky_record():
    try:
        raise ValueError("Bearer abc123")
    except ValueError:
        return logging.LogRecord(
            "x", 20, "f", 1, "key=%s %s", ("sk-ant-abc1", "fine"), sys.exc_info(),
            sinfo="call(api_key='abc')",
        )  # fmt: skip


def test_the_filter_masks_message_traceback_stack_and_extras():
    """On a handler of the user's, no part of a record shows a credential."""
    record = leaky_record()
    count = object()
    record.__dict__.update(
        password="abc", headers={"X-Api-Key": ["abc"], "n": 1}, count=count,
        owner=Credentials(), pair=("Bearer abc123", b"token=abc"), token=17,
    )  # fmt: skip
    masked = logs.RedactionFilter().filter(record)
    assert masked.getMessage() == "key=*** fine"
    assert "ValueError: Bearer ***" in logging.Formatter().format(masked)
    assert masked.exc_info is None
    assert masked.stack_info == "call(api_key='***')"
    assert masked.password == "***"
    assert masked.headers == {"X-Api-Key": ["***"], "n": 1}
    assert masked.owner == "Credentials(password='***')"
    assert masked.pair == ("Bearer ***", "b'token=***'")
    assert (masked.count, masked.token) == (count, 17)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="filters cannot replace records")
def test_the_filter_leaves_the_record_of_others_alone():
    """From Python 3.12 on the handler gets a copy."""
    record = leaky_record()
    before = copy.copy(vars(record))
    logs.RedactionFilter().filter(record)
    assert vars(record) == before


def test_files_hold_no_credential(log_path):
    """What configure() writes went through the same filter."""
    log, secret = logging.getLogger("syncagent.test"), "abc" + "123"
    with logs.configure(log_path, json=True):
        log.info("Bearer %s", secret, extra={"api_key": secret, "x": {"token": secret}})
        try:
            raise ValueError(f"https://me:{secret}@host/")
        except ValueError:
            log.exception("password=%s", secret, stack_info=True)
    text = log_path.read_text()
    assert "ValueError: https://me:***@host/" in text
    assert secret not in text
