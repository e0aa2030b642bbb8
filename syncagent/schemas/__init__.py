"""Python types to JSON schema and back.

========================  =============================================================
:mod:`~.shape`            a type with its schema, and values of it from JSON
:mod:`~.schema`           the JSON schema of a type, with as few references as possible
:mod:`~.hints`            type hints in a form that msgspec understands
:mod:`~.pydantic_models`  classes that validate themselves, such as pydantic's
:mod:`~.signature`        the parameters of a function as a schema, and calls of it
:mod:`~.docstrings`       the descriptions in a docstring
:mod:`~.problems`         errors of msgspec and pydantic, for a model to read
:mod:`~.coercion`         wrong values that can mean one thing only
:mod:`~.paths`            places in a value and in a schema
:mod:`~.forms`            forms for people, and answers that fit them
========================  =============================================================
"""

from __future__ import annotations

from .problems import ShapeError, check_depth
from .shape import Shape

__all__ = ["Shape", "ShapeError", "check_depth"]
