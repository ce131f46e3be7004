"""The summaries of a log, on disk while they are needed: a log may have more of them than memory should hold."""

import tempfile
from collections.abc import Iterable, KeysView
from typing import Any, Self

from holdfast.interop.inspect.eval_archive import SampleKey, key_of
from holdfast.interop.inspect.json_text import decode_json, encode_json

_IN_MEMORY = 8 << 20


class SummaryStore:
    """Summaries by the sample they are of; of several for one, the last counts."""

    def __init__(self, summaries: Iterable[dict[str, Any]]) -> None:
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed on exit
        self._places: dict[SampleKey, tuple[int, int]] = {}
        for summary in summaries:
            if key := key_of(summary):
                encoded = encode_json(summary)
                self._places[key] = self._file.tell(), len(encoded)
                self._file.write(encoded)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def keys(self) -> KeysView[SampleKey]:
        return self._places.keys()

    def get(self, key: SampleKey) -> dict[str, Any] | None:
        """The summary of a sample, if there is one."""
        if key not in self._places:
            return None
        offset, size = self._places[key]
        self._file.seek(offset)
        found: dict[str, Any] = decode_json(self._file.read(size))
        return found
