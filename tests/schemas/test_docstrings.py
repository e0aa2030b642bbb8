"""Docstrings in three styles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncagent.schemas.docstrings import read_docstring

GOOGLE = """Tell the weather.

    It may be wrong.

    Args:
        city (str): Where,
            in one word.
        days (Callable[[int], str], optional): How long: at most ten.

            Or twelve.
        *others: More.

    Returns:
        Words: many.
    """

NUMPY = """
    Tell the weather.

    It may be wrong.

    Parameters
    ----------
    city : str
        Where,
        in one word.
    days, hours : int, default 3
        How long.
    bare
        No type.

    Returns
    -------
    text : str
        Words.
    """

SPHINX = """Tell the weather.

    It may be wrong.

    :param city: Where,
        in one word.
    :type city: str
    :param int days: How long: at most ten.
    :returns: words
    :raises ValueError: never
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_summary_ends_where_sections_begin(text):
    """The summary is the short and the long description, and no more."""
    assert read_docstring(text).summary == "Tell the weather.\n\nIt may be wrong."


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        (
            GOOGLE,
            {
                "city": "Where, in one word.",
                "days": "How long: at most ten. Or twelve.",
                "others": "More.",
            },
        ),
        (
            NUMPY,
            {
                "city": "Where, in one word.",
                "days": "How long.",
                "hours": "How long.",
                "bare": "No type.",
            },
        ),
        (
            SPHINX,
            {"city": "Where, in one word.", "days": "How long: at most ten."},
        ),
        ("Do.\n\nArguments:\n  a: one\n  b: two\nParameters:\n  c: three", "abc"),
        ("Do.\n\nArgs:\n    - `a`: one\n    - **b** (int): two", "ab"),
        ("Do.\n\n@param a: one\n@return: it", "a"),
        ("Args:\n    a: one\n\nExample:\n    b: two", "a"),
        ("Do.\n\nArgs:\n\n    a: one\nReturns: b", "a"),
    ],
)
def test_parameters(text, parameters):
    """Each parameter has its text, on one line."""
    found = read_docstring(text).parameters
    if isinstance(parameters, str):
        assert "".join(found) == parameters
        assert found["a"] == "one"
    else:
        assert found == parameters


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (None, ""),
        ("", ""),
        ("  Do it.  ", "Do it."),
        ("Do it: now.\n\n  Indented: yes", "Do it: now.\n\nIndented: yes"),
        ("Do.\n\nReturns: it", "Do."),
        ("Do.\n\nExamples\n--------\n>>> 1", "Do."),
        ("Do.\n\nNote:\n    well\n\nArgs:\n    x: y", "Do."),
        ("Title\n-----\nText", "Title\n-----\nText"),
        (":param x: y", ""),
    ],
)
def test_summary(text, summary):
    """What is no section belongs to the summary."""
    assert read_docstring(text).summary == summary


def test_an_object_that_is_no_text_says_nothing():
    """Whatever stands as a docstring does no harm."""
    assert read_docstring(3) == ("", {})


PIECES = st.sampled_from(
    ["Args:", "Parameters", "----", ":param", " x:", "y :", "\n", "    ", "\t", "@", ""]
)


@given(st.text() | st.lists(PIECES | st.text(max_size=3)).map("".join))
def test_nothing_raises(text):
    """Any text can be read."""
    said = read_docstring(text)
    assert all(isinstance(words, str) for words in said.parameters.values())
