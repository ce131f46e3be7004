"""When a limit ends, by what an agent's structured error says of it: a number, a date, or a time of day in words."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any
from zoneinfo import ZoneInfo

_LATE = dt.timedelta(minutes=10)
"""A time of day that has passed by less was meant for today: the agent was slow to say it."""
_MOST_SECONDS = 8 * 86_400
_SOON = 60.0
_EPOCH = re.compile(r"\|\s*(\d{10}|\d{13})\b")
_IN = re.compile(
    r"\b(?:again |resets? |wait |retry )(?:in |after )?((?:\d+(?:\.\d+)?\s*[a-z]+[\s,]*(?:and\s+)?)+)", re.IGNORECASE
)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_CLOCK = re.compile(
    r"\bresets?(?P<next>\s+tomorrow)?(?:\s+(?:at|on))?\s+(?:(?P<month>[a-z]{3})[a-z]*\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s*(?:at\s+)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap]\.?m\.?)?(?P<later>\s+tomorrow)?"
    r"(?:\s*\(?(?P<zone>[A-Za-z]+(?:/[A-Za-z_+\-0-9]+)*)\)?)?",
    re.IGNORECASE,
)
_UNITS = {
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "wk", "wks", "week", "weeks"), 7 * 86_400.0),
}
_HOURS_FROM_UTC = {"PST": -8, "PDT": -7, "MDT": -6, "EDT": -4, "CEST": 2}
"""Abbreviations that mean one zone, and that the database of zones does not have."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def reset_time(said: Any, now: float) -> float | None:
    """When the limit ends, in seconds since 1970; None if that is not said, or cannot be meant."""
    found = _from_number(said, now) if isinstance(said, int | float) and not isinstance(said, bool) else None
    if isinstance(said, str):
        found = _from_text(said, now)
    if found is None or found - now > _MOST_SECONDS:
        return None
    return max(found, now + 1.0)


def _from_number(said: float, now: float) -> float | None:
    """Seconds or milliseconds since 1970, or seconds from now."""
    if said > 1e12:
        return said / 1000.0
    if said > 1e9:
        return float(said)
    return now + said if 0 <= said <= _MOST_SECONDS else None


def _from_text(said: str, now: float) -> float | None:
    said = said.strip()
    if match := _EPOCH.search(said):
        return _from_number(float(match[1]), now)
    if re.fullmatch(r"\d+(\.\d+)?", said):
        return _from_number(float(said), now)
    try:
        date = dt.datetime.fromisoformat(said)
    except ValueError:
        found = _from_clock(said, now) or _from_duration(said, now)
        # Words are read less surely than numbers: to ask too early again and again is worse than to wait.
        return None if found is None else max(found, now + _SOON)
    return date.astimezone().timestamp() if date.tzinfo is None else date.timestamp()


def _from_clock(said: str, now: float) -> float | None:
    """A time of day: that of today, or of tomorrow where it has passed."""
    match = _CLOCK.search(said)
    if match is None or not (match["half"] or match["minute"] or match["zone"]):
        return None
    hour, minute = _hour(int(match["hour"]), match["half"]), int(match["minute"] or 0)
    is_tomorrow = bool(match["next"] or match["later"])
    zone = _zone(match["zone"])
    if hour > 23 or minute > 59 or zone is _UNKNOWN:
        return None
    here = dt.datetime.fromtimestamp(now, zone if isinstance(zone, dt.tzinfo) else None).astimezone(zone)
    try:
        day = _day(here, match["month"], match["day"])
    except ValueError:
        return None
    meant = dt.datetime.combine(day + dt.timedelta(days=is_tomorrow), dt.time(hour, minute), here.tzinfo)
    if meant < here and not match["month"]:
        if here - meant < _LATE:
            return now + _SOON
        meant = dt.datetime.combine(day + dt.timedelta(days=1), dt.time(hour, minute), here.tzinfo)
    return meant.timestamp()


def _hour(hour: int, half: str | None) -> int:
    if half is None or hour > 12:
        return hour if half is None else 99
    return hour % 12 + (12 if half.lower().startswith("p") else 0)


_UNKNOWN = dt.timezone(dt.timedelta(0), "unknown")


def _zone(name: str | None) -> dt.tzinfo | None:
    """The zone of that name; None for the machine's own, where none is named."""
    if not name or name.lower() in {"and", "or", "on", "please", "local", "today"}:
        return None
    if name.upper() in {"UTC", "GMT", "Z"}:
        return dt.UTC
    if (hours := _HOURS_FROM_UTC.get(name.upper())) is not None:
        return dt.timezone(dt.timedelta(hours=hours))
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return _UNKNOWN


def _day(here: dt.datetime, month: str | None, day: str | None) -> dt.date:
    if month is None or day is None:
        return here.date()
    date = dt.date(here.year, _MONTHS.index(month.lower()) + 1, int(day))
    return date.replace(year=here.year + 1) if date < here.date() - dt.timedelta(days=180) else date


def _from_duration(said: str, now: float) -> float | None:
    """A time from now; None where a unit is not known, which must not be taken for seconds."""
    match = _IN.search(said)
    parts = _PART.findall(match[1]) if match is not None else []
    if not parts or any(unit.lower() not in _UNITS for _, unit in parts):
        return None
    return now + sum(float(count) * _UNITS[unit.lower()] for count, unit in parts)
