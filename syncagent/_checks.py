"""Checks of arguments that are numbers, with one form of message."""

from __future__ import annotations

import math
from typing import Any

from .exceptions import ConfigurationError

__all__ = ["check_number", "check_timeout"]


def check_number(
    name: str,
    value: Any,
    *,
    minimum: float = 0,
    is_positive: bool = False,
    maximum: float | None = None,
    is_integer: bool = False,
    allow_none: bool = False,
    allow_infinity: bool = False,
    unit: str = "",
) -> None:
    """Check that *value* is a number, and neither a ``bool`` nor NaN.

    :param name: the argument, for the message.
    :param minimum: the smallest number allowed.
    :param is_positive: refuse 0, whatever *minimum* says.
    :param maximum: the largest number allowed.
    :param is_integer: allow only an ``int``.
    :param allow_none: allow ``None``, too.
    :param allow_infinity: allow infinity, too.
    :param unit: what it counts, such as ``seconds``, for the message.
    :raises ConfigurationError: *value* is not such a number.
    """
    if value is None and allow_none:
        return
    kinds = int if is_integer else (int, float)
    if isinstance(value, kinds) and not isinstance(value, bool):
        # Comparisons only: an int may be too large to become a float.
        is_finite = allow_infinity or value < math.inf
        is_below = maximum is None or value <= maximum
        if value >= minimum and is_finite and is_below and (value or not is_positive):
            return
    number = "number"
    if is_integer:
        number = "whole number" if unit else "integer"
    counted = f" of {unit}" if unit else ""
    none = " or None" if allow_none else ""
    if is_positive or (is_integer and minimum == 1):
        expected = f"a positive {number}{counted}"
    elif minimum == 0:
        expected = f"a non-negative {number}{counted}"
    else:
        article = "an" if number == "integer" else "a"
        expected = f"{article} {number}{counted}, {minimum:g} or more"
    if maximum is not None:
        expected += f", at most {maximum:g}"
    raise ConfigurationError(f"{name} must be {expected}{none}; got {value!r:.80}")


def check_timeout(timeout: Any, name: str = "timeout") -> None:
    """Check that *timeout* is a number of seconds, or ``None`` for no limit.

    :raises ConfigurationError: it is not.
    """
    check_number(name, timeout, unit="seconds", allow_none=True, allow_infinity=True)
