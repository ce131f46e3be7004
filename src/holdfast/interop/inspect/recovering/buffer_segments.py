"""The files in which Inspect keeps the samples of a running eval beside the log, where it runs with shared logging.

A manifest lists the samples and, for each, the segments with its rows. Nothing of it was written atomically and nothing
has a checksum of its own: a sample counts as whole only if every segment that it cites is there, can be read, and holds
rows up to those that the manifest names.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.interop.importing.foreign_values import UnreadableFile, list_of, map_of, read_regular_file
from holdfast.interop.inspect.archive.zip_reader import ArchiveError, ZipReader
from holdfast.interop.inspect.eval_archive import SampleKey, key_of
from holdfast.interop.inspect.json_text import InvalidJson, decode_json, encode_json
from holdfast.interop.inspect.recovering.buffer_rows import BufferedSample, SampleRows, newest_versions, pooled

FILESTORE = "filestore"
_FOLDER, _MANIFEST = ".buffer", "manifest.json"
_MOST_BYTES = 512 << 20
_IN_SUMMARY = "summary"
_LAST_IDS = {
    "events": "last_event_id",
    "attachments": "last_attachment_id",
    "message_pool": "last_message_pool_id",
    "call_pool": "last_call_pool_id",
}
"""By kind of row, the field of the manifest with the largest id of those in a segment."""


class BufferSegments:
    """The manifest and the segments of one log."""

    def __init__(self, log: Path) -> None:
        self.folder = log.parent / _FOLDER / log.stem
        self.losses: list[str] = []
        """Why the manifest, or an entry of it, cannot be used, if it is there and cannot."""
        self._manifest = self._read_manifest()

    @property
    def exists(self) -> bool:
        """Whether there is a manifest that can be read."""
        return bool(self._manifest)

    def _read_manifest(self) -> dict[str, Any]:
        path = self.folder / _MANIFEST
        if not path.exists():
            return {}
        try:
            found = decode_json(read_regular_file(path, _MOST_BYTES))
        except (UnreadableFile, InvalidJson) as error:
            self.losses.append(f"{path}: {error}")
            return {}
        if isinstance(found, dict):
            return found
        self.losses.append(f"{path}: not a manifest")
        return {}

    def samples(self) -> Iterator[BufferedSample]:
        """The samples that the manifest lists, complete or not."""
        found = self._manifest.get("samples", [])
        if not isinstance(found, list):
            self.losses.append(f"{self.folder / _MANIFEST}: its samples are not a list")
        for number, item in enumerate(list_of(found)):
            summary = map_of(item).get("summary")
            key = key_of(summary)
            if key is None:
                self.losses.append(f"{self.folder / _MANIFEST}: samples[{number}] has no valid id and epoch")
                continue
            yield BufferedSample(
                key,
                map_of(summary),
                FILESTORE,
                lambda key=key, item=item: self._rows_of(key, item),  # type: ignore[misc]
            )

    def _rows_of(self, key: SampleKey, item: dict[str, Any]) -> SampleRows:
        losses: list[str] = []
        parts = [self._part(key, cited, losses) for cited in _cited_segments(item, losses)]
        if not parts and not losses:
            losses.append("the manifest names no segment for it")
        rows = {kind: [row for part in parts for row in _objects_in(part.get(kind))] for kind in _LAST_IDS}
        return SampleRows(
            newest_versions(((row.get("event_id"), row.get("event")) for row in rows["events"]), losses),
            {str(row.get("hash")): str(row.get("content")) for row in rows["attachments"]},
            [pooled(row.get("data"), losses) for row in rows["message_pool"]],
            [pooled(row.get("data"), losses) for row in rows["call_pool"]],
            self._metadata(key, item),
            losses,
        )

    def _part(self, key: SampleKey, cited: "_Cited", losses: list[str]) -> dict[str, Any]:
        """The rows of a sample in one segment; nothing where it cannot be read."""
        name = f"segment.{cited.number}.zip"
        try:
            with ZipReader(self.folder / name) as archive:
                found = decode_json(archive.read(f"{key.id}_{key.epoch}.json", _MOST_BYTES))
        except FileNotFoundError:
            losses.append(f"{name} is missing")
        except KeyError:
            losses.append(f"{name} has no rows of it")
        except (ArchiveError, InvalidJson, OSError) as error:
            losses.append(f"{name} cannot be read: {_short(error)}")
        else:
            if isinstance(found, dict):
                losses.extend(f"{name} has rows that cannot be read ({kind})" for kind in _odd_kinds(found))
                losses.extend(f"{name} ends too early ({kind})" for kind in _cut_kinds(found, cited.last_ids))
                return found
            losses.append(f"{name} holds no rows")
        return {}

    def _metadata(self, key: SampleKey, item: dict[str, Any]) -> dict[str, Any] | None:
        """The sample's metadata, from a file of its own where the summary's are shortened."""
        digest = item.get("metadata_hash")
        if not isinstance(digest, str) or digest == _IN_SUMMARY or not digest.isalnum():
            return None
        # Inspect indents the two values of this key.
        name = hashlib.sha256(b"[\n  %s,\n  %d\n]" % (encode_json(key.id), key.epoch)).hexdigest()
        try:
            content = read_regular_file(self.folder / f"metadata.{name}.{digest}.json", _MOST_BYTES)
            found = decode_json(content) if hashlib.sha256(content).hexdigest() == digest else None
        except (UnreadableFile, InvalidJson):
            return None
        return found if isinstance(found, dict) else None


class _Cited(NamedTuple):
    number: int
    last_ids: dict[str, int]
    """By kind of row, the largest id that the segment must hold."""


def _cited_segments(item: dict[str, Any], losses: list[str]) -> list[_Cited]:
    found = []
    segments = item.get("segments")
    for entry in segments if isinstance(segments, list) else []:
        number = entry.get("id") if isinstance(entry, dict) else entry
        if isinstance(number, int):
            last_ids = {kind: entry.get(field) for kind, field in _LAST_IDS.items()} if isinstance(entry, dict) else {}
            found.append(_Cited(number, {kind: last for kind, last in last_ids.items() if isinstance(last, int)}))
        else:
            losses.append("the manifest names a segment that is not a number")
    return sorted(found)


def _cut_kinds(part: dict[str, Any], last_ids: dict[str, int]) -> list[str]:
    """The kinds of rows whose last ones are missing."""

    def last(kind: str) -> int:
        ids = [row.get("id") for row in _objects_in(part.get(kind))]
        return max((ident for ident in ids if isinstance(ident, int)), default=0)

    return [kind for kind, expected in last_ids.items() if last(kind) < expected]


def _odd_kinds(part: dict[str, Any]) -> list[str]:
    """The kinds of rows of which some are no objects."""
    return [kind for kind in _LAST_IDS if len(_objects_in(part.get(kind))) < len(list_of(part.get(kind)))]


def _objects_in(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _short(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return str(getattr(error, "message", error)).rpartition(": ")[2].rstrip(".")
