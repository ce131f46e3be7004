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
    """A range of the samples, in their present order."""

    start: Annotated[Start, Drift.IDENTITY] = 0
    """How many samples to skip at the beginning. Example: `100`"""

    num: Annotated[LargeCount | None, Drift.IDENTITY] = None
    """How many samples to keep. Default: all of them. Example: `1000`"""


class Shuffle(Block, frozen=True):
    """An order that depends on the seed and on each sample's content, not on its place in the file."""

    seed: Annotated[Seed, Drift.IDENTITY]
    """The seed of the order: the same seed and samples always give the same order. Example: `42`"""


class Filter(Block, frozen=True):
    """The samples whose field equals a value, is one of several, or matches a regular expression."""

    exactly_one: ClassVar[tuple[str, ...]] = ("equals", "in", "matches")

    field: Annotated[Words, Drift.IDENTITY]
    """The field (column) of a row to look at; `a.b` is the field `b` inside `a`. Example: `region`"""

    equals: Annotated[Any, Drift.IDENTITY] = None
    """Keep rows whose field has this value. Text and numbers with the same spelling are equal, because every CSV cell
    is text.
    Example: `Europe`
    """

    in_: Annotated[list[Any] | None, Drift.IDENTITY] = msgspec.field(name="in", default=None)
    """Keep rows whose field has one of these values. Example: `[Europe, Asia]`"""

    matches: Annotated[str | None, Drift.IDENTITY] = None
    """Keep rows whose field contains a match of this regular expression. Example: `'^[A-M]'`"""


class Repeat(Block, frozen=True):
    """Every sample several times."""

    times: Annotated[Count, Drift.IDENTITY]
    """How often every sample occurs. For repetitions that are averaged per sample, use `epochs` of a task instead.
    Example: `3`
    """


class Operation(Block, frozen=True):
    """One step that chooses or orders samples."""

    exactly_one: ClassVar[tuple[str, ...]] = ("slice", "shuffle", "filter", "repeat")

    slice: Annotated[Slice | None, Drift.IDENTITY] = None
    """Keep a range of the samples. Example: `{start: 100, num: 50}`"""

    shuffle: Annotated[Shuffle | None, Drift.IDENTITY] = None
    """Put the samples in a random order that depends on the seed and on each sample's content. Example: `{seed: 42}`"""

    filter: Annotated[Filter | None, Drift.IDENTITY] = None
    """Keep the samples that have a certain value in a field. Example: `{field: region, equals: Europe}`"""

    repeat: Annotated[Repeat | None, Drift.IDENTITY] = None
    """Use every sample several times. Example: `{times: 3}`"""


class DatasetSpec(Block, frozen=True):
    """One dataset: a file of samples, and which of them are used in which order."""

    shorthand: ClassVar[tuple[str, ...]] = ("path",)

    path: Annotated[Words, Drift.LOCATION]
    """The file of samples. A relative path starts at the directory of the eval file. Example: `data/capitals.jsonl`"""

    format: Annotated[Format | None, Drift.IDENTITY] = None
    """The format of the file: JSON lines, a JSON array of objects, or CSV with a header. Default: by the ending of the
    file name (.jsonl, .ndjson, .json, .csv).
    Example: `csv`
    """

    operations: Annotated[list[Operation], Drift.IDENTITY] = msgspec.field(default_factory=list)
    """Steps that choose and order the samples, applied in this order.
    Example: `[{shuffle: {seed: 42}}, {slice: {num: 1000}}]`
    """

    fields: Annotated[dict[SampleField, Words], Drift.IDENTITY] = msgspec.field(default_factory=dict)
    """Which column of the file holds each part of a sample, where it is not called `input`, `target`, `id` or
    `choices`.
    Example: `{input: question, target: answer}`
    """
