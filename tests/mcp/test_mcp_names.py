"""Names of tools as every provider accepts them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncagent.exceptions import ConfigurationError
from syncagent.mcp.names import check_prefix, is_chosen, provider_names

ACCEPTED = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")

#: Names that meet easily: few letters, and lengths around the limit.
close_names = st.one_of(
    st.text("ab._/ é1", min_size=1, max_size=6),
    st.builds(
        lambda text, n: text * n, st.sampled_from(["ab", "a."]), st.integers(28, 64)
    ),
    st.text(min_size=1, max_size=8),
)


@settings(max_examples=50)
@given(st.lists(close_names, unique=True, max_size=12), st.sampled_from(["", "fs_"]))
def test_names_are_accepted_different_and_independent_of_the_order(names, prefix):
    """MCP trap 18: any names of a server, in any order."""
    found = provider_names(names, prefix)
    assert list(found) == names
    assert all(ACCEPTED.match(name) for name in found.values())
    assert len(set(found.values())) == len(names)
    assert provider_names(reversed(names), prefix) == found
    for name, given_name in found.items():
        if ACCEPTED.match(prefix + name):
            assert given_name == prefix + name


def test_a_server_cannot_aim_at_the_name_of_another_tool():
    """The name that a hash makes may be taken already, on purpose."""
    first = provider_names(["a.b", "a_b"])["a.b"]
    found = provider_names(["a.b", "a_b", first])
    assert len(set(found.values())) == 3
    assert found[first] == first


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("read_file", "read_file"),
        ("fs.read/file", "fs_read_file"),
        ("1st", "_1st"),
        ("a b", "a_b"),
    ],
)
def test_odd_characters_are_replaced(name, expected):
    """MCP trap 18: dots, slashes, blanks, digits in front."""
    assert provider_names([name]) == {name: expected}


def test_a_name_of_128_characters_is_cut_and_marked():
    """MCP trap 18: the longest name that a server should have."""
    long, other = "x" * 128, "x" * 127 + "y"
    found = provider_names([long, other])
    assert [len(name) for name in found.values()] == [64, 64]
    assert found[long] != found[other]


def test_patterns_choose_tools():
    """``only`` and ``without`` take names and patterns, in the server's own names."""
    assert is_chosen("read_file", ["read_*"], None)
    assert not is_chosen("write_file", ["read_*"], None)
    assert not is_chosen("read_secret", ["read_*"], ["*secret"])
    assert is_chosen("anything", None, None)
    assert not is_chosen("anything", [], None)


@pytest.mark.parametrize("prefix", ["1_", "a b", "x" * 33, "ä_", None])
def test_a_prefix_that_no_name_can_begin_with(prefix):
    """It is refused where it is written."""
    with pytest.raises(ConfigurationError, match="prefix"):
        check_prefix(prefix)
