"""One check for every argument that is a number."""

import math

import pytest

from syncagent import ConfigurationError
from syncagent._checks import check_number, check_timeout


@pytest.mark.parametrize(
    ("value", "rules"),
    [
        (0, {}),
        (1.5, {}),
        (10**400, {}),
        (None, {"allow_none": True}),
        (math.inf, {"allow_infinity": True}),
        (5, {"maximum": 5, "minimum": 5}),
        (1, {"is_integer": True, "is_positive": True}),
    ],
)
def test_numbers_that_are_allowed(value, rules):
    """A number within its bounds passes."""
    check_number("n", value, **rules)


@pytest.mark.parametrize(
    ("value", "rules", "message"),
    [
        (-1, {"unit": "seconds"}, "n must be a non-negative number of seconds; got -1"),
        (0, {"is_positive": True}, "n must be a positive number; got 0"),
        (1.0, {"is_integer": True}, "n must be a non-negative integer; got 1.0"),
        (
            0,
            {"is_integer": True, "minimum": 1},
            "n must be a positive integer; got 0",
        ),
        (1, {"minimum": 2.5}, "n must be a number, 2.5 or more; got 1"),
        (6, {"maximum": 5}, "n must be a non-negative number, at most 5; got 6"),
        (True, {}, "n must be a non-negative number; got True"),
        ("2", {"allow_none": True}, "n must be a non-negative number or None; got '2'"),
        (None, {}, "n must be a non-negative number; got None"),
        (
            math.nan,
            {"allow_infinity": True},
            "n must be a non-negative number; got nan",
        ),
        (math.inf, {}, "n must be a non-negative number; got inf"),
        (
            10**400,
            {"maximum": 5},
            "n must be a non-negative number, at most 5; got 1000",
        ),
    ],
)
def test_numbers_that_are_refused(value, rules, message):
    """The message says what was expected and what came."""
    with pytest.raises(ConfigurationError) as refused:
        check_number("n", value, **rules)
    assert str(refused.value).startswith(message)


def test_timeouts():
    """Seconds, None or infinity."""
    for timeout in (0, 0.5, None, math.inf):
        check_timeout(timeout)
    with pytest.raises(
        ConfigurationError, match=r"^grace must be a non-negative number of"
    ):
        check_timeout(-1, "grace")
