"""The digest of a weights file: what a local model is known by, wherever its file lies.

Weights are large, and every session compares them. So the digest is kept in the user's cache, together with what the
filesystem says of the file: device, inode, size, and when its content and its inode last changed, in nanoseconds. The
last of these is set by the kernel with every write, rename and `touch`, and no program can set it. A digest is kept
only for a file that has been at rest for two seconds: a second write cannot fall into the same tick of the clock then.
What remains is a filesystem that reports false times, or a clock that was set back. A kept digest is never the reason
for a refusal: the file is read again before that is said.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.digests import content_digest, file_digest
from holdfast.errors import ConfigurationError

_AT_REST_SECONDS = 2.0


class FileSignature(NamedTuple):
    """What the filesystem says of a file: other bytes in it have another signature."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> FileSignature:
        """That of the file as it is now.

        Raises:
            OSError: there is no such file.
        """
        found = path.stat()
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def is_at_rest(self, now: int) -> bool:
        """Whether the file was last changed long enough ago that another change would have another time."""
        return max(self.modified, self.changed) + _AT_REST_SECONDS * 1e9 < now


class KeptDigest(msgspec.Struct, frozen=True, array_like=True):
    """A line of the cache."""

    path: str
    signature: FileSignature
    digest: str
    sum: str
    """Of the rest: a damaged line is not believed."""

    @classmethod
    def of(cls, path: str, signature: FileSignature, digest: str) -> KeptDigest:
        return cls(path, signature, digest, content_digest(msgspec.json.encode([path, signature, digest])))


def weights_digest(path: Path, *, again: bool = False) -> str:
    """The digest of a weights file; with `again` by its bytes alone, whatever is kept.

    Raises:
        ConfigurationError: it cannot be read, or is being written.
    """
    place = _kept_at(path)
    try:
        signature = FileSignature.of(path)
        if not again and (kept := _kept(place, str(path), signature)):
            return kept
        digest = file_digest(path)
        if FileSignature.of(path) != signature:
            raise ConfigurationError(f"The weights {path} are being written.", hint="Wait until they are complete.")
    except OSError as error:
        raise ConfigurationError(f"The weights {path} cannot be read: {error.strerror}.") from error
    if signature.is_at_rest(time.time_ns()):
        _keep(place, KeptDigest.of(str(path), signature, digest))
    return digest


def _kept_at(path: Path) -> Path:
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home has no cache
        base = Path(os.devnull)
    return base / "holdfast" / f"weights-{content_digest(os.fsencode(path))}.json"


def _kept(place: Path, path: str, signature: FileSignature) -> str:
    """The digest that was kept for exactly this file; empty if absent."""
    try:
        kept = msgspec.json.decode(place.read_bytes(), type=KeptDigest)
    except (OSError, msgspec.MsgspecError):
        return ""
    return kept.digest if kept == KeptDigest.of(path, signature, kept.digest) else ""


def _keep(place: Path, kept: KeptDigest) -> None:
    """Where that fails, the file is read again next time."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_suffix(f".{os.getpid()}.tmp")
        beside.write_bytes(msgspec.json.encode(kept))
        beside.replace(place)
