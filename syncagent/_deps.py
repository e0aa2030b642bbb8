"""The data that a caller gives to a run as ``deps=``: its type, and who sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    #: A class that is used without it takes any data.
    Deps = TypeVarWithDefault("Deps", default=Any)
else:
    Deps = TypeVar("Deps")  # a default exists from Python 3.13 on

__all__ = ["Deps", "ShownDeps"]

_T = TypeVar("_T", bound="ShownDeps")


class ShownDeps(msgspec.Struct, frozen=True, dict=True):
    """The base of values that show a user's code what their run was given.

    It is in no field, so that it gets into no text, no JSON and no pickle.
    """

    @property
    def deps(self) -> Any:
        """The ``deps=`` of the run, else of the agent."""
        return self.__dict__.get("deps")

    @property
    def metadata(self) -> dict[str, Any]:
        """The ``metadata=`` of the run."""
        metadata: dict[str, Any] = self.__dict__.get("metadata", {})
        return metadata

    def showing(self: _T, deps: Any, metadata: dict[str, Any]) -> _T:
        """Return a copy that shows what the run was given."""
        if deps is None and not metadata:
            return self
        other = msgspec.structs.replace(self)
        other.__dict__.update(self.__dict__, deps=deps, metadata=metadata)
        return other
