"""What is wrong with a value."""

from __future__ import annotations

__all__ = ["ShapeError"]


class ShapeError(ValueError):
    """A value does not have the shape that is wanted. A model can read this.

    :param path: where, such as ``$.items[2].price``.
    :param expected: what should be there.
    :param got: what is there.
    :param message: all of it in words, if those three are not enough.
    """

    def __init__(
        self, path: str = "$", expected: str = "", got: str = "", message: str = ""
    ) -> None:
        self.path = path
        self.expected = expected
        self.got = got
        self.message = message or f"at {path}: expected {expected}, got {got}"
        super().__init__(path, expected, got, self.message)

    def __str__(self) -> str:
        return self.message
