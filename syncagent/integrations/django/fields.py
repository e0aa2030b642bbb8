"""The fields of the store's tables."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from django import conf
from django.db import models

__all__ = ["StoreTime", "to_datetime"]


def to_datetime(seconds: float | None) -> datetime | None:
    """Return a time of the store as Django shows times.

    :param seconds: since 1970.
    """
    if seconds is None:
        return None
    # Without USE_TZ all times of a site are naive, in its own time zone.
    zone = timezone.utc if conf.settings.USE_TZ else None
    return datetime.fromtimestamp(seconds, zone)


class StoreTime(models.DateTimeField):
    """A time, which the store keeps in seconds since 1970."""

    def get_internal_type(self) -> str:
        """Return the type of the column."""
        return "FloatField"

    def from_db_value(
        self, value: float | None, expression: Any, connection: Any
    ) -> datetime | None:
        """Return the time in a column."""
        return to_datetime(value)

    def get_db_prep_value(
        self, value: Any, connection: Any, prepared: bool = False
    ) -> float | None:
        """Return a time as the column has it."""
        time = self.to_python(value)
        return None if time is None else float(time.timestamp())
