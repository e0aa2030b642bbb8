"""Timeouts and deadlines as users pass them."""

from __future__ import annotations

import math
from typing import Final

from . import clock

#: Seconds ahead beyond which a deadline is surely on the wrong clock: 20 years.
_TOO_FAR: Final = 20 * 366 * 86400.0


def absolute(timeout: float | None, deadline: float | None) -> float | None:
    """Return the timeout or the deadline, whichever is set, as a monotonic time."""
    if timeout is not None and deadline is not None:
        raise ValueError("give timeout or deadline, not both")
    if timeout is not None:
        seconds = _number("timeout", timeout)
        if seconds < 0:
            raise ValueError(f"timeout must not be negative, got {timeout!r}")
        deadline = clock.now() + seconds
    elif deadline is not None:
        deadline = _number("deadline", deadline)
        if _TOO_FAR < deadline - clock.now() < math.inf:
            raise ValueError(
                f"deadline {deadline!r} is decades away; it is a time.monotonic() "
                "time, not a time.time() one. Use timeout= for seconds from now"
            )
    return None if deadline == math.inf else deadline


def _number(name: str, value: float) -> float:
    # Decimal, Fraction and numpy's numbers are accepted like a float; True is not.
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number of seconds, got {value!r}")
    try:
        number = float(value)
    except OverflowError:  # an int beyond all floats
        number = math.inf if value > 0 else -math.inf
    if math.isnan(number):
        raise ValueError(f"{name} must be a number of seconds, got {value!r}")
    return number


def earlier(one: float | None, other: float | None) -> float | None:
    """Return the earlier of two times, where ``None`` is never."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
