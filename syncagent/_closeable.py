"""What is closed at the end of a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

__all__ = ["Closeable"]

_T = TypeVar("_T", bound="Closeable")


class Closeable(ABC):
    """Something with a ``close()``, which a ``with`` block calls."""

    @abstractmethod
    def close(self) -> None:
        """End it."""

    def __enter__(self: _T) -> _T:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
