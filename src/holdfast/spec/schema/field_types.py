"""The kinds of value a field may hold, each with its bounds.

Bounds are wide enough for any sensible eval, and narrow enough that a slip (10^12 for a limit, a negative
time) is refused at the door with the bounds in the message.
"""

from typing import Annotated, Any

from msgspec import Meta

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

Seed = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)]
Count = Annotated[int, Meta(ge=1, le=10**6)]
LargeCount = Annotated[int, Meta(ge=1, le=10**9)]
Start = Annotated[int, Meta(ge=0, le=10**9)]
Retries = Annotated[int, Meta(ge=0, le=1000)]
_DURATION = {"unit": "seconds"}
Seconds = Annotated[float, Meta(gt=0, le=10**7, extra=_DURATION)]
GraceSeconds = Annotated[float, Meta(ge=0, le=86_400, extra=_DURATION)]
SegmentBytes = Annotated[int, Meta(ge=1 << 16, le=1 << 30)]
Bytes = Annotated[int, Meta(ge=1, le=1 << 50)]
ExitCode = Annotated[int, Meta(ge=0, le=255)]
Cost = Annotated[float, Meta(gt=0, le=10**9)]
PricePerMillion = Annotated[float, Meta(ge=0, le=10**6)]
Temperature = Annotated[float, Meta(ge=0, le=100)]
Probability = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Ranks = Annotated[int, Meta(ge=0, le=1000)]
Words = Annotated[str, Meta(min_length=1, description="not empty")]
Name = Annotated[
    str,
    Meta(
        pattern=r"^[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]{0,198}[^\s\x00-\x1f\x7f])?\Z",
        description="1 to 200 characters, no control characters, no space at either end",
    ),
]
Title = Annotated[
    str,
    Meta(
        pattern=r"^[^/\x00-\x1f\x7f]{0,200}\Z",
        description="at most 200 characters, without / and control characters",
    ),
]


def is_duration(kind: Any) -> bool:
    """Whether a type is a number of seconds, which a file may also give as text: `2m`."""
    return any(getattr(item, "extra", None) == _DURATION for item in getattr(kind, "__metadata__", ()))
