"""Headers and URLs of strangers are read without trust."""

import time

import pytest

from syncagent.exceptions import ConfigurationError
from syncagent.mcp.oauth.addresses import Reach, reach_of
from syncagent.mcp.oauth.challenge import Challenge
from syncagent.mcp.oauth.urls import (
    authorization_server_places,
    is_resource_of,
    resource_places,
    server_key,
)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Bearer", Challenge()),
        ("", Challenge()),
        ('Bearer scope="a b", error=e', Challenge(scopes=("a", "b"), error="e")),
        (
            'bearer  resource_metadata = "u?c=d,e"',
            Challenge(resource_metadata="u?c=d,e"),
        ),
        ("Bearer resource_metadata=u/b?c=d", Challenge(resource_metadata="u/b?c=d")),
        ('Basic realm="Bearer scope=x", Bearer scope="y"', Challenge(scopes=("y",))),
        ('Bearer scope="y", Digest scope="z"', Challenge(scopes=("y",))),
        ('Bearer error="a \\"b\\" c"', Challenge(error='a "b" c')),
        ("Negotiate YWJj==, Bearer scope=x", Challenge(scopes=("x",))),
    ],
)
def test_a_challenge_is_read(header, expected):
    """Quoted or bare, alone or among others."""
    assert Challenge.of({"WWW-Authenticate": header}) == expected
    assert Challenge.of({"www-authenticate": header}) == expected


@pytest.mark.parametrize(
    "text", ["a" * 10**6, 'a="' * 10**6, "a=" * 10**6, "," * 10**6]
)
def test_a_hostile_challenge_takes_no_time(text):
    """Linear in a length that is bounded."""
    before = time.process_time()
    Challenge.of({"WWW-Authenticate": f"Bearer {text}"})
    assert time.process_time() - before < 0.2


def test_places_of_metadata_are_those_of_the_specification():
    """In its order."""
    assert list(resource_places("https://a:8/x/y?q")) == [
        "https://a:8/.well-known/oauth-protected-resource/x/y",
        "https://a:8/.well-known/oauth-protected-resource",
    ]
    assert list(authorization_server_places("https://a/t")) == [
        "https://a/.well-known/oauth-authorization-server/t",
        "https://a/.well-known/openid-configuration/t",
        "https://a/t/.well-known/openid-configuration",
    ]
    assert list(authorization_server_places("https://a/")) == [
        "https://a/.well-known/oauth-authorization-server",
        "https://a/.well-known/openid-configuration",
    ]


@pytest.mark.parametrize(
    ("resource", "is_fine"),
    [
        ("https://a/mcp", True),
        ("https://A:443/mcp/", True),
        ("https://a", True),
        ("https://a/", True),
        ("https://a/mc", False),
        ("https://a/mcp/x", False),
        ("http://a/mcp", False),
        ("https://a.evil/mcp", False),
        ("https://a:444/mcp", False),
        ("https://u@a/mcp", False),
        ("", False),
    ],
)
def test_a_resource_is_the_server_or_above_it(resource, is_fine):
    """On the same origin."""
    assert is_resource_of(resource, "https://a/mcp") is is_fine


def test_tokens_are_kept_by_a_canonical_url():
    """Spellings of one server are one; two servers of one host are two."""
    assert server_key("HTTPS://Example.com:443/mcp/?x=1") == "https://example.com/mcp"
    assert server_key("http://[::1]:80/a") == "http://[::1]/a"
    assert server_key("https://a/b") != server_key("https://a/c")
    for wrong in ("", "example.com/mcp", "ftp://a/b", "https://", "https://a:x/"):
        with pytest.raises(ConfigurationError, match="URL of an MCP server"):
            server_key(wrong)


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("8.8.8.8", Reach.PUBLIC),
        ("2001:4860:4860::8888", Reach.PUBLIC),
        ("10.1.2.3", Reach.PRIVATE),
        ("100.64.0.1", Reach.PRIVATE),
        ("fd00::1", Reach.PRIVATE),
        ("64:ff9b::a00:1", Reach.PRIVATE),
        ("2002:c0a8:1::1", Reach.PRIVATE),
        ("::ffff:10.0.0.1", Reach.PRIVATE),
        ("127.9.9.9", Reach.LOCAL),
        ("::1", Reach.LOCAL),
        ("::ffff:127.0.0.1", Reach.LOCAL),
        ("169.254.169.254", Reach.NOWHERE),
        ("fe80::1%eth0", Reach.NOWHERE),
        ("0.0.0.0", Reach.NOWHERE),
        ("224.0.0.1", Reach.NOWHERE),
    ],
)
def test_addresses_are_told_apart(address, reach):
    """Also those that are wrapped in another notation."""
    assert reach_of(address) is reach
