"""Functions whose hints are strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional, TypedDict

if TYPE_CHECKING:
    from test_signature import Context, Unknown


def plain(count: int, where: Annotated[str, "A town."] = "here") -> Unknown:
    """Have hints that are strings, and one of them for type checkers only."""


def with_context(count: int, talk: Context) -> None:
    """Take a context that type checkers alone know."""


def with_optional_context(count: int, talk: Optional[Context] = None) -> None:  # noqa: UP045
    """Take a context or none."""


def unknown(what: list[Unknown]) -> None:
    """Name what is not there."""


def closure():
    """Return a function that uses a class which is known here only."""

    class Local(TypedDict):
        count: int

    def inner(what: list[Local]) -> Local:
        return Local(count=len(what))

    return inner
