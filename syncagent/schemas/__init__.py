"""Python types as JSON schemas, and JSON as values of those types.

======================  ===============================================
:mod:`~.shape`          a type, its schema, and values of it
:mod:`~.errors`         what is wrong with a value
:mod:`~.hints`          type hints as msgspec reads them
:mod:`~.schema`         one schema, with as few references as can be
:mod:`~.foreign`        classes that check themselves, such as pydantic's
:mod:`~.places`         where something is in a value and in a schema
:mod:`~.problems`       from msgspec's and pydantic's errors to ours
:mod:`~.repairs`        what is wrong, and yet can mean one thing only
======================  ===============================================
"""

from __future__ import annotations

from .problems import ShapeError
from .shape import Shape

__all__ = ["Shape", "ShapeError"]
