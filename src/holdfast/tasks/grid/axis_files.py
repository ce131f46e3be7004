"""The content of the files that axis values bring, as digests: by these a later session knows if it is the same."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from holdfast.tasks.grid.axis_grid import AxisGrid

_MISSING = "missing"


def file_key(axis: str, value: str, path: str) -> str:
    """What a file of an axis value is recorded under."""
    return f"{axis}={value}: {path}"


def file_digests(grid: AxisGrid | None) -> dict[str, str]:
    """By axis, value and path in the workspace, the digest of every file or directory."""
    if grid is None:
        return {}
    return {
        file_key(axis, value, path): path_digest(Path(grid.locate(source)))
        for axis, values in grid.values.items()
        for value, entry in values.items()
        for path, source in entry.files.items()
    }


def missing_files(grid: AxisGrid) -> Iterator[tuple[str, str, str]]:
    """The axis, the value and the source of every file that does not exist."""
    for axis, values in grid.values.items():
        for value, entry in values.items():
            for source in entry.files.values():
                if not Path(grid.locate(source)).exists():
                    yield axis, value, source


def path_digest(path: Path) -> str:
    """The digest of a file, or of the names and content of all that is in a directory; links are not followed."""
    if path.is_dir() and not path.is_symlink():
        found = blake2b(digest_size=16)
        for inner in sorted(path.rglob("*")):
            kind = "" if inner.is_dir() and not inner.is_symlink() else _file_digest(inner)
            found.update(f"{inner.relative_to(path).as_posix()}\0{kind}\0".encode(errors="surrogatepass"))
        return found.hexdigest()
    return _file_digest(path)


def _file_digest(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    try:
        with path.open("rb") as stream:
            found = blake2b(digest_size=16)
            while piece := stream.read(1 << 20):
                found.update(piece)
            return found.hexdigest()
    except OSError:
        return _MISSING
