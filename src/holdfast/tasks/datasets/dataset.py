"""The samples of a task: chosen, ordered, identified, and read from disk one at a time.

In memory a sample takes about 48 bytes: where its row begins, its input's and its target's digest, its place in the
selection and its occurrence number. Looking samples up by their keys takes 12 bytes more, from the first time on.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from holdfast.digests import new_content_digest, packed_digest
from holdfast.errors import ConfigurationError
from holdfast.run.core.display_text import short_sample
from holdfast.run.where.trial_spelling import is_digest_beginning
from holdfast.spec import Operation
from holdfast.suggestions import did_you_mean, listing
from holdfast.tasks.choices import shuffled
from holdfast.tasks.datasets.columns import Columns, Row
from holdfast.tasks.datasets.operations import select
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.datasets.row_identity import LastRowByKey, RowIdentities, key_text
from holdfast.tasks.sample import Sample

_PLAIN_TYPES = frozenset({str, int, float, bool, type(None)})
_HAVE_PARTS = frozenset({"scoring", "metadata"})
_MOST_TYPES = 1000
SUGGESTED_FROM = 10_000
"""So many keys are looked at for the nearest to a missing one."""
_LISTED_KEYS = 3


class Dataset:
    """Samples by position; a position means nothing outside this object, a key does."""

    def __init__(
        self,
        rows: Rows,
        columns: Columns | None = None,
        operations: Sequence[Operation] = (),
        limit: int | None = None,
        shuffle_choices: int | None = None,
    ) -> None:
        self.rows = rows
        self.columns = columns or Columns()
        self._operations, self._limit = operations, limit
        self._shuffle_choices = shuffle_choices
        self._identities = RowIdentities(rows, self.columns)
        self._selection = select(rows, self._identities, operations, limit)
        self._positions: LastRowByKey | None = None

    def keep_only(self, ids: Collection[str]) -> None:
        """Leave out every sample whose key is not among these; a ConfigurationError names one that does not exist."""
        ids = self._whole_ids(ids)
        missing = set(ids)
        kept = array("I")
        for position, key in enumerate(self.keys()):
            if key in ids:
                kept.append(position)
                missing.discard(key)
        if missing:
            raise self._without_sample(min(missing))
        self._selection, self._positions = self._selection.pick(kept), None

    def _whole_ids(self, ids: Collection[str]) -> set[str]:
        """The ids, of which those made from the content may be cut short, as in the lists of trials."""
        short = set(ids).difference(self.keys())
        whole: dict[str, list[str]] = {given: [] for given in short}
        for key in self.keys() if short else ():
            for given in short:
                if is_digest_beginning(given, key):
                    whole[given].append(key)
        return {whole[given][0] if len(whole.get(given, ())) == 1 else given for given in ids}

    def _without_sample(self, key: str) -> ConfigurationError:
        """The error about a sample that cannot be chosen: it is beyond the limit, left out, or does not exist."""
        source = self.rows.source
        if Dataset(self.rows, self.columns, self._operations).position(key) is not None:
            beyond = f"The sample {key!r} of {source} is beyond the limit of {self._limit}."
            return ConfigurationError(beyond, hint="Raise the limit, or leave the id out.")
        if Dataset(self.rows, self.columns).position(key) is not None:
            left_out = f"The sample {key!r} of {source} is left out by the operations of its dataset."
            return ConfigurationError(left_out, hint="Change the operations, or leave the id out.")
        if not self.has_ids:
            return ConfigurationError(f"{source} has no sample with the id {key!r}.", hint=self._missing_ids(key))
        keys = list(islice(self.keys(), SUGGESTED_FROM))
        near = did_you_mean(key, keys) or f"There are {listing(keys)}."
        return ConfigurationError(f"{source} has no sample with the id {key!r}.", hint=near)

    def _missing_ids(self, wanted: str) -> str:
        """What to do where rows have no ids; the column that has the wanted one may be meant."""
        rows = (self.rows[number] for number in range(min(len(self.rows), SUGGESTED_FROM)))
        column = next((name for row in rows for name, value in row.items() if str(value) == wanted), "COLUMN")
        known = listing(short_sample(key) for key in islice(self.keys(), _LISTED_KEYS))
        named = f"Add a column `id`, or name one in the dataset: `fields: {{id: {column}}}`."
        return f"Its rows have no ids. {named} Without ids, samples are named by their content: {known}, …"

    def __len__(self) -> int:
        return len(self._selection.rows)

    def __getitem__(self, position: int) -> Sample:
        return self.sample(position)

    def sample(self, position: int, row: Row | None = None) -> Sample:
        """The sample at a position; its row is read unless it is given."""
        number = self._selection.rows[position]
        place = self.rows.place(number)
        sample = self.columns.sample(self.rows[number] if row is None else row, place)
        if self._shuffle_choices is None:
            return sample
        return shuffled(sample, self._shuffle_choices, self._identities.name(number), place)

    def row(self, position: int) -> Row:
        """The row that the sample at a position is made from."""
        return self.rows[self._selection.rows[position]]

    def row_number(self, position: int) -> int:
        """The number of that row in its file, counted from 1."""
        return self._selection.rows[position] + 1

    def __iter__(self) -> Iterator[Sample]:
        return (self[position] for position in range(len(self)))

    def positions_of_distinct_types(self) -> Iterator[int]:
        """The positions of samples, without those whose row has the same columns as an earlier one, and plain values
        of the same types in them.
        """
        seen: set[tuple[object, ...]] = set()
        for position, number in enumerate(self._selection.rows):
            types = self._plain_types(self.rows[number])
            if types is None or types not in seen:
                yield position
            if types is not None and len(seen) < _MOST_TYPES:
                seen.add(types)

    def _plain_types(self, row: Row) -> tuple[object, ...] | None:
        """The columns of a row and the types of their values; None where more than these may matter."""
        types = tuple(map(type, row.values()))
        has_parts = self.columns.column("choices") in row or not _HAVE_PARTS.isdisjoint(row)
        return None if has_parts or self.columns.options or not _PLAIN_TYPES.issuperset(types) else (*row, *types)

    def key(self, position: int) -> str:
        """What identifies the sample in every session: its id, or its input's digest, with its occurrence."""
        number = self._selection.rows[position]
        return key_text(self._identities.name(number), self._selection.occurrences[position])

    def keyed_row(self, position: int) -> tuple[str, Row | None]:
        """As `key`, with the row where that has to be read for it anyway."""
        number = self._selection.rows[position]
        row = self.rows[number] if self.has_ids else None
        return key_text(self._identities.name(number, row), self._selection.occurrences[position]), row

    def keys(self) -> Iterator[str]:
        return (self.key(position) for position in range(len(self)))

    def position(self, key: str) -> int | None:
        """The position of the sample with this key, if there is one; the first call goes through all samples."""
        if self._positions is None:
            self._positions = self._position_by_key()
        return self._positions.find(_key_digest(key), lambda position: self.key(position) == key)

    def _position_by_key(self) -> LastRowByKey:
        positions = LastRowByKey(len(self))
        for position, key in enumerate(self.keys()):
            # No two samples have the same key.
            positions.exchange(_key_digest(key), position, lambda _: False)
        return positions

    def input_digest(self, position: int) -> bytes:
        return self._identities.input_digest(self._selection.rows[position])

    def target_digest(self, position: int) -> bytes:
        return self._identities.target_digest(self._selection.rows[position])

    def empty_targets(self) -> list[int]:
        """The positions of samples whose target is an empty text; found without reading a row."""
        empty = self._identities.empty_target_digest()
        if empty is None:
            return []
        return [position for position in range(len(self)) if self.target_digest(position) == empty]

    def digest(self) -> bytes:
        """What the keys of all samples, in their order, follow from."""
        chosen = new_content_digest(self._identities.digest())
        chosen.update(self._selection.rows)
        chosen.update(self._selection.occurrences)
        return chosen.digest()

    @property
    def has_ids(self) -> bool:
        """Whether the samples have ids of their own, and are not named by their content."""
        return self._identities.has_ids

    @property
    def has_duplicates(self) -> bool:
        """Whether some samples differ from others in nothing but their occurrence number."""
        return any(occurrence > 1 for occurrence in self._selection.occurrences)

    def repeated(self) -> list[tuple[int, int]]:
        """The positions of samples whose row repeats another one, which is first in each pair.

        None where an operation repeats rows on purpose, or where the others were left out.
        """
        if any(operation.repeat is not None for operation in self._operations):
            return []
        others: dict[str, int] = {}
        found: list[tuple[int, int]] = []
        for position, occurrence in enumerate(self._selection.occurrences):
            if occurrence == 1:
                continue
            name = self._identities.name(self._selection.rows[position])
            first = self.position(key_text(name, 1))
            other = others.setdefault(name, position) if first is None else first
            if other != position:
                found.append((other, position))
        return found

    def place(self, position: int) -> str:
        """The place of the sample in its file, for people."""
        return self.rows.place(self._selection.rows[position])


def _key_digest(key: str) -> bytes:
    return packed_digest(key.encode("utf-8", "surrogatepass"))
