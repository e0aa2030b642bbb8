"""Objects that a ``with`` block closes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

__all__ = ["Closeable"]

_T = TypeVar("_T", bound="Closeable")


class Closeable(ABC):
    """Base class of objects with a ``close()``, which a ``with`` block calls."""

    @abstractmethod
    def close(self) -> None:
        """Release what the object holds."""

    def __enter__(self: _T) -> _T:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
