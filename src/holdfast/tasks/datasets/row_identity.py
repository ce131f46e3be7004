"""Who each row is: by its id or its content, never by its position.

A row's key is the id that the dataset gives or, failing that, the digest of its input; rows with the same key are
told apart by an occurrence number, counted from 1. Input and target have digests of their own, sixteen bytes each,
packed. One id with two contents is refused, naming both rows.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from holdfast.digests import DIGEST_BYTES, canonical_json, packed_digest
from holdfast.errors import ConfigurationError
from holdfast.tasks.datasets.columns import Columns, Row
from holdfast.tasks.datasets.derived_cache import derived_name
from holdfast.tasks.datasets.row_content import RowContents
from holdfast.tasks.datasets.row_file import Rows

_CACHED_FROM = 2000
"""Fewer rows are digested again as quickly."""
_REVISION = 1
"""Raised whenever the same rows are identified by other digests than before, or kept in another order."""

_NUMBERED = re.compile(r"~\d+\Z")
_ROW_BITS = 0xFFFFFFFF


def key_text(name: str, occurrence: int) -> str:
    """The key as text: the name, with `~n` from the second occurrence on.

    A name that already ends so is always numbered, so that no two keys are spelled alike.
    """
    plain = occurrence == 1 and ("~" not in name or not _NUMBERED.search(name))
    return name if plain else f"{name}~{occurrence}"


def key_name(key: str) -> str:
    """The name in a key: what is left of it without the occurrence number."""
    return _NUMBERED.sub("", key)


class RowIdentities:
    """The digests of every row, at 32 bytes a row, and at first the occurrence number, at 4."""

    def __init__(self, rows: Rows, columns: Columns) -> None:
        self._rows = rows
        self._columns = columns
        self._inputs = bytearray(len(rows) * DIGEST_BYTES)
        self._targets = bytearray(len(rows) * DIGEST_BYTES)
        self._has_ids = False
        self._occurrences = array("I", [1]) * len(rows)
        self._decode_id = _column_decoder(columns.column("id"))
        cache = rows.cache if len(rows) >= _CACHED_FROM else None
        if cache is None:
            self._identify(LastRowByKey(len(rows)))
        elif not self._restore(cache.find(self.digest().hex())):
            self._identify(LastRowByKey(len(rows)))
            cache.put(self.digest().hex(), self._packed())

    @property
    def has_ids(self) -> bool:
        """Whether the dataset gives ids."""
        return self._has_ids

    def input_digest(self, row: int) -> bytes:
        return _digest_at(self._inputs, row)

    def target_digest(self, row: int) -> bytes:
        return _digest_at(self._targets, row)

    def empty_target_digest(self) -> bytes | None:
        """The digest of a target that is an empty text; None where no row has it."""
        content = RowContents(self._columns).empty_target()
        digest = None if content is None else packed_digest(content)
        return digest if digest is not None and digest in self._targets else None

    def take_occurrences(self) -> array[int]:
        """The occurrence number of every row, handed over: a selection carries them from then on."""
        taken, self._occurrences = self._occurrences, array("I")
        return taken

    def name(self, row: int, content: Row | None = None) -> str:
        """The id that the dataset gives, or the input's digest in hexadecimal; `content` is the row, if it is known."""
        given = None
        if self._has_ids:
            given = self._given_id(row) if content is None else self._columns.sample_id(content, "the row")
        return self.input_digest(row).hex() if given is None else given

    def key_digest(self, row: int) -> bytes:
        """The digest that the row's place in a shuffle depends on: it stays when other rows come or go."""
        given = self._given_id(row) if self._has_ids else None
        return self.input_digest(row) if given is None else _id_digest(given)

    def _identify(self, seen: LastRowByKey) -> None:
        contents = RowContents(self._columns)
        for number, row in enumerate(self._rows):
            given = self._columns.sample_id(row, self._rows.place(number))
            self._has_ids = self._has_ids or given is not None
            _put_digest(self._inputs, number, packed_digest(contents.input(row)))
            _put_digest(self._targets, number, packed_digest(contents.target(row)))
            earlier = seen.exchange(self._lookup_digest(number, given), number, self._has_same_key(number, given))
            if earlier is not None:
                self._check_content(given, earlier, number)
                self._occurrences[number] = self._occurrences[earlier] + 1

    def _lookup_digest(self, number: int, given: str | None) -> bytes:
        return self.input_digest(number) if given is None else _id_digest(given)

    def _has_same_key(self, number: int, given: str | None) -> Callable[[int], bool]:
        """Whether an earlier row has the same key; read again, since only digests are kept in memory."""
        return lambda earlier: (
            (given is not None or self.input_digest(earlier) == self.input_digest(number))
            and self._given_id(earlier) == given
        )

    def _given_id(self, number: int) -> str | None:
        rows, column = self._rows, self._columns.column("id")
        if "." in column:
            return self._columns.sample_id(rows[number], rows.place(number))
        value = rows.read(number, self._decode_id).value
        return self._columns.sample_id({} if value is UNSET else {column: value}, rows.place(number))

    def digest(self) -> bytes:
        """What the identities follow from: the rows, what of them is what, and how that is digested and kept."""
        version = f"{_REVISION} {sys.byteorder} {array('I').itemsize}"
        name = derived_name("identities", version.encode(), self._rows.digest.encode(), canonical_json(self._columns))
        return bytes.fromhex(name)

    def _packed(self) -> bytes:
        return b"".join((bytes([self._has_ids]), self._inputs, self._targets, self._occurrences))

    def _restore(self, packed: bytes | None) -> bool:
        """Takes over what was worked out in an earlier session, if it was."""
        if packed is None:
            return False
        inputs_end, targets_end = 1 + len(self._inputs), 1 + 2 * len(self._inputs)
        self._has_ids = bool(packed[0])
        self._inputs[:], self._targets[:] = packed[1:inputs_end], packed[inputs_end:targets_end]
        self._occurrences = array("I", packed[targets_end:])
        return True

    def _check_content(self, given: str | None, earlier: int, number: int) -> None:
        if given is None:
            return
        for part, packed in (("input", self._inputs), ("target", self._targets)):
            if _digest_at(packed, earlier) != _digest_at(packed, number):
                raise ConfigurationError(
                    f"{self._rows.source} gives the id {given!r} to rows {earlier + 1} and {number + 1}, "
                    f"whose {part} differs.",
                    hint="Give rows that differ different ids.",
                )


def _column_decoder(column: str) -> Callable[[bytes], Any]:
    """Decodes one column of a row, as `value`, and passes over the others; UNSET where there is no such column."""
    field = ("value", Any, UNSET)
    return msgspec.json.Decoder(msgspec.defstruct("OnlyColumn", [field], rename={"value": column})).decode


class LastRowByKey:
    """The row last seen with each key, at twelve bytes a row; a dict would take more than a hundred.

    An open-addressed table: a slot holds 32 bits of the key's digest and the row's number plus one, or 0.
    """

    def __init__(self, capacity: int) -> None:
        self._slots = array("Q", [0]) * (capacity * 3 // 2 + 2)

    def exchange(self, key: bytes, row: int, same: Callable[[int], bool]) -> int | None:
        """Note the row under its key, and return the row that stood there, if any."""
        place = self._place(key, same)
        earlier = self._slots[place] & _ROW_BITS
        self._slots[place] = int.from_bytes(key[:4]) << 32 | row + 1
        return earlier - 1 if earlier else None

    def find(self, key: bytes, same: Callable[[int], bool]) -> int | None:
        """The row that was noted under the key, if any."""
        row = self._slots[self._place(key, same)] & _ROW_BITS
        return row - 1 if row else None

    def _place(self, key: bytes, same: Callable[[int], bool]) -> int:
        """The slot of the key: where it is, or the free one where it belongs."""
        slots, size = self._slots, len(self._slots)
        tag = int.from_bytes(key[:4])
        place = int.from_bytes(key[4:12]) % size
        while slot := slots[place]:
            if slot >> 32 == tag and same((slot & _ROW_BITS) - 1):
                break
            place = (place + 1) % size
        return place


def _id_digest(given: str) -> bytes:
    return packed_digest(b"id\0" + given.encode())


def _digest_at(packed: bytearray, row: int) -> bytes:
    return bytes(packed[row * DIGEST_BYTES : (row + 1) * DIGEST_BYTES])


def _put_digest(packed: bytearray, row: int, value: bytes) -> None:
    packed[row * DIGEST_BYTES : (row + 1) * DIGEST_BYTES] = value
