"""A dataset: a file of samples and the operations that choose and order them.

The path says where the file is; the samples themselves are compared by content when a run is resumed.
"""

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from holdfast.spec.schema.drift import Block, Drift
from holdfast.spec.schema.field_types import Count, LargeCount, Seed, Start, Words

Format = Literal["jsonl", "json", "csv"]
SampleField = Literal["input", "target", "id", "choices"]


class Slice(Block, frozen=True):
    """`num` samples from `start` on; without `num`, all of them."""

    start: Annotated[Start, Drift.IDENTITY] = 0
    num: Annotated[LargeCount | None, Drift.IDENTITY] = None


class Shuffle(Block, frozen=True):
    """An order that depends on the seed and on each sample's content, not on its place in the file."""

    seed: Annotated[Seed, Drift.IDENTITY]


class Filter(Block, frozen=True):
    """Keeps the rows whose field equals a value, is one of several, or matches a regular expression."""

    exactly_one: ClassVar[tuple[str, ...]] = ("equals", "in", "matches")

    field: Annotated[Words, Drift.IDENTITY]
    equals: Annotated[Any, Drift.IDENTITY] = None
    in_: Annotated[list[Any] | None, Drift.IDENTITY] = msgspec.field(name="in", default=None)
    matches: Annotated[str | None, Drift.IDENTITY] = None


class Repeat(Block, frozen=True):
    """Every row `times` times over."""

    times: Annotated[Count, Drift.IDENTITY]


class Operation(Block, frozen=True):
    """One step of a dataset's operations: exactly one of these is given."""

    exactly_one: ClassVar[tuple[str, ...]] = ("slice", "shuffle", "filter", "repeat")

    slice: Annotated[Slice | None, Drift.IDENTITY] = None
    shuffle: Annotated[Shuffle | None, Drift.IDENTITY] = None
    filter: Annotated[Filter | None, Drift.IDENTITY] = None
    repeat: Annotated[Repeat | None, Drift.IDENTITY] = None


class DatasetSpec(Block, frozen=True):
    """One entry of `datasets`; without a format, the file's ending decides."""

    shorthand: ClassVar[tuple[str, ...]] = ("path",)

    path: Annotated[Words, Drift.LOCATION]
    format: Annotated[Format | None, Drift.IDENTITY] = None
    operations: Annotated[list[Operation], Drift.IDENTITY] = msgspec.field(default_factory=list)
    fields: Annotated[dict[SampleField, Words], Drift.IDENTITY] = msgspec.field(default_factory=dict)
    """Which column of the file holds each part of a sample, where the names differ."""
