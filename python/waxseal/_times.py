"""Times of the library, in microseconds since 1970, as datetimes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: The last time of a datetime. Later times, which the library has, are converted to it.
LAST = datetime.max.replace(tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_LAST_MICROS = (LAST - EPOCH) // _MICROSECOND


def moment_of(micros: int) -> datetime:
    """Converts microseconds to a datetime. A time after the year 9999 becomes `LAST`."""
    return EPOCH + timedelta(microseconds=min(micros, _LAST_MICROS))
