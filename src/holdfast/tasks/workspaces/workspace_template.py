"""The template of a workspace in one file: a directory, or a repository at a commit, and files laid over it.

A run keeps the file among its inputs, so that it can be resumed wherever it is and whatever became of the template.
The identity of a template is its content: equal files have equal identities wherever they are, and a repository at a
commit is that commit.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.storage.scratch_directory import ScratchDirectory
from holdfast.tasks.workspaces.git_command import GitFailed, run_git
from holdfast.tasks.workspaces.keys_in_history import refuse_keys_in_history

TREE, FILES = "tree/", "files/"
COMMIT, OBJECTS, SHALLOW = "commit", "objects.pack", "shallow"
"""The members of the file: those of a directory, those laid over it, and what there is of a repository."""
_CHUNK = 1 << 20
_LEFT_OUT = ".git"

_LONGEST_NAME = 255


class WorkspaceTemplate(msgspec.Struct, frozen=True):
    """Where a workspace comes from."""

    path: str = ""
    repo: str = ""
    commit: str = "HEAD"
    files: dict[str, str] = {}
    """By their place in the workspace, the files and directories that are laid over it."""
    field: str = "workspace.files"
    """Where the eval has these files, for messages."""

    @property
    def is_there(self) -> bool:
        """Whether what it is made from can be found where it says."""
        places = [*filter(None, [self.path]), *self.files.values()]
        return all(os.path.lexists(place) for place in places) and (not self.repo or _is_reachable(self.repo))


def _is_reachable(repo: str) -> bool:
    return "://" in repo or Path(repo).is_dir()


def pack_template(template: WorkspaceTemplate, stream: BinaryIO) -> str:
    """Writes the file; the identity of the template.

    Raises:
        ConfigurationError: it does not exist, cannot be read, or holds what is neither file, directory nor link.
    """
    return _write(template, stream, "")


def _write(template: WorkspaceTemplate, stream: Any, commit: str) -> str:
    """Writes the file; a repository whose `commit` is given is only named."""
    identity = sha256()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as archive:
        if template.repo:
            identity.update(b"commit " + (commit or _pack_repository(template, archive)).encode())
        elif template.path:
            for line in _pack_directory(Path(template.path), TREE, archive):
                identity.update(line)
        _check_overlays(template)
        for place, source in sorted(template.files.items()):
            for line in _pack_overlay(place, Path(source), archive, template.field):
                identity.update(line)
    return identity.hexdigest()[:32]


def template_identity(template: WorkspaceTemplate, commit: str) -> str:
    """The identity of the template as it is now; of a repository, `commit` is the one that the run has a copy of.

    Raises:
        ConfigurationError: as for `pack_template`.
    """
    return _write(template, _Discarded(), commit)


class _Discarded(io.RawIOBase):
    """Takes what is written, and keeps nothing."""

    def __init__(self) -> None:
        self._place = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def write(self, data: Any) -> int:
        self._place += len(data)
        return len(data)


# A directory.


def _pack_directory(root: Path, prefix: str, archive: tarfile.TarFile) -> Iterator[bytes]:
    if not root.is_dir():
        state = "is not a directory" if root.exists() else "does not exist"
        raise ConfigurationError(f"The template {root} of the workspace {state}.", hint="Check workspace.path.")
    for path, name in _walk(root):
        yield _pack_entry(path, f"{prefix}{name}", archive)


def _walk(root: Path) -> Iterator[tuple[Path, str]]:
    """Every entry below a directory with its relative name, in the order of the names; links are not followed."""
    queue = [root]
    while queue:
        place = queue.pop()
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except OSError as error:
            raise ConfigurationError(f"The template {place} cannot be read: {error.strerror}.") from None
        for entry in entries:
            if place == root and entry.name == _LEFT_OUT:
                continue
            yield Path(entry.path), str(Path(entry.path).relative_to(root))
            if entry.is_dir(follow_symlinks=False):
                queue.append(Path(entry.path))


def _pack_entry(path: Path, name: str, archive: tarfile.TarFile) -> bytes:
    """Adds one entry; the line of it that the identity is made of."""
    info, found = tarfile.TarInfo(name), path.lstat()
    mode = 0o755 if stat.S_ISDIR(found.st_mode) or found.st_mode & 0o100 else 0o644
    info.mode = mode
    told = f"{name}\0{mode:o}\0".encode("utf-8", "surrogateescape")
    if stat.S_ISLNK(found.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
        archive.addfile(info)
        return b"l" + told + os.fsencode(info.linkname) + b"\n"
    if stat.S_ISDIR(found.st_mode):
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
        return b"d" + told + b"\n"
    if not stat.S_ISREG(found.st_mode):
        raise ConfigurationError(
            f"The template of a workspace holds {path}, which is neither a file, a directory nor a link.",
            hint="Remove it from the template.",
        )
    return b"f" + told + _pack_file(path, info, archive).encode() + b"\n"


def _pack_file(path: Path, info: tarfile.TarInfo, archive: tarfile.TarFile) -> str:
    try:
        with path.open("rb") as file:
            info.size = os.fstat(file.fileno()).st_size
            hashed = _Hashed(file, info.size, path)
            archive.addfile(info, hashed)
    except OSError as error:
        raise ConfigurationError(f"The template's {path} cannot be read: {error.strerror or error}.") from None
    return hashed.digest.hexdigest()


class _Hashed:
    """A file that is digested while it is copied."""

    def __init__(self, file: BinaryIO, size: int, path: Path) -> None:
        self._file, self._left, self._path, self.digest = file, size, path, sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._left -= len(data)
        if not data and self._left > 0:
            raise ConfigurationError(f"{self._path} became shorter while it was read.", hint="Try again.")
        self.digest.update(data)
        return data


def _pack_overlay(place: str, source: Path, archive: tarfile.TarFile, field: str) -> Iterator[bytes]:
    name = checked_place(place, field)
    if source.is_dir() and not source.is_symlink():
        for path, below in _walk(source):
            yield _pack_entry(path, f"{FILES}{name}/{below}", archive)
    elif source.exists():
        yield _pack_entry(source.resolve(), f"{FILES}{name}", archive)
    else:
        raise ConfigurationError(f"{field}: {source} does not exist.", hint="Check the path.")


def _check_overlays(template: WorkspaceTemplate) -> None:
    """Raises ConfigurationError where two files would be laid at one place, or one below another that is a file."""
    places: dict[str, str] = {}
    for place in template.files:
        name = checked_place(place, template.field)
        if (other := places.setdefault(name, place)) != place:
            raise ConfigurationError(
                f"{template.field}: {other!r} and {place!r} are the same place.", hint="Keep one of them."
            )
    for name, place in places.items():
        for parent in map(str, PurePosixPath(name).parents):
            below = Path(template.files[places[parent]]) if parent in places else Path(template.path, parent)
            if (parent in places or template.path) and below.is_file():
                raise ConfigurationError(
                    f"{template.field}: {place!r} lies below {parent!r}, which is a file.",
                    hint="Give one of them another place.",
                )


def checked_place(place: str, field: str) -> str:
    """A place in a workspace, in its usual spelling; `field` says where the eval has it.

    Raises:
        ConfigurationError: it is outside of the workspace.
    """
    parts = PurePosixPath(place).parts
    if parts and parts[0] == _LEFT_OUT:
        raise ConfigurationError(
            f"{field}: {place!r} is in .git, which belongs to the repository of the workspace.",
            hint="Have `setup` change the repository.",
        )
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in parts):
        raise ConfigurationError(
            f"{field}: {place[:40]!r}… has a name of more than {_LONGEST_NAME} bytes, which no file can have.",
            hint="Give it a shorter name.",
        )
    if not parts or parts[0] == "/" or ".." in parts:
        raise ConfigurationError(
            f"{field}: {place!r} is not a place in the workspace.", hint="Give a relative path without '..'."
        )
    return "/".join(parts)


# A repository.


def _pack_repository(template: WorkspaceTemplate, archive: tarfile.TarFile) -> str:
    with ScratchDirectory() as place:
        repository = Path(template.repo)
        if "://" in template.repo:
            run_git(["clone", "--quiet", "--bare", template.repo, "clone"], cwd=place)
            repository = place / "clone"
        commit = resolve_commit(repository, template.commit)
        refuse_keys_in_history(repository, commit, template.repo)
        pack, shallow = place / OBJECTS, _shallow_file(repository)
        with pack.open("wb") as stream:
            asked = f"{commit}\n".encode()
            run_git(["pack-objects", "--revs", "--stdout", "-q"], cwd=repository, stdin=asked, stdout=stream)
        _add_bytes(archive, COMMIT, f"{commit}\n".encode())
        if shallow:
            _add_bytes(archive, SHALLOW, shallow)
        archive.add(pack, OBJECTS, filter=_anonymous)
    return commit


def resolve_commit(repository: Path, commit: str) -> str:
    """The full name of a commit.

    Raises:
        ConfigurationError: there is no such repository, or no such commit in it.
    """
    if not repository.is_dir():
        raise ConfigurationError(f"The repository {repository} does not exist.", hint="Check workspace.repo.")
    if commit.startswith("-"):
        raise ConfigurationError(f"workspace.commit: {commit!r} is not a commit.")
    try:
        run_git(["rev-parse", "--git-dir"], cwd=repository)
    except GitFailed as error:
        raise ConfigurationError(
            f"{repository} is not a git repository ({error.message}).", hint="Use workspace.path for a directory."
        ) from None
    try:
        return run_git(["rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"], cwd=repository).decode().strip()
    except GitFailed:
        raise ConfigurationError(
            f"The repository {repository} has no commit {commit!r}.", hint="Check workspace.commit."
        ) from None


def _shallow_file(repository: Path) -> bytes:
    """Where the history of a shallow clone ends; empty for a whole one."""
    place = run_git(["rev-parse", "--git-path", SHALLOW], cwd=repository).decode().strip()
    path = repository / place
    return path.read_bytes() if path.is_file() else b""


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    archive.addfile(info, io.BytesIO(data))


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime, info.mode = 0, 0o644
    return info


# Reading it.


class PackedTemplate(msgspec.Struct, frozen=True):
    """A template in its file."""

    digest: str
    """Of the file, by which a run finds it among its inputs."""
    identity: str


def read_small_members(path: Path) -> Mapping[str, bytes]:
    """What the file says of a repository; empty for a directory."""
    with tarfile.open(path, "r:", errors="surrogateescape") as archive:
        found: dict[str, bytes] = {}
        for info in archive:
            if info.name in {COMMIT, SHALLOW} and (member := archive.extractfile(info)) is not None:
                found[info.name] = member.read()
            if info.name.startswith((TREE, FILES)) or info.name == OBJECTS:
                break
        return found


def copy_objects(path: Path, stream: BinaryIO) -> None:
    """Copies the objects of the repository out of the file."""
    with tarfile.open(path, "r:", errors="surrogateescape") as archive:
        member = archive.extractfile(OBJECTS)
        if member is not None:
            shutil.copyfileobj(member, stream, _CHUNK)


def packed_identity(path: Path) -> str:
    """The identity of the template in a file, by the content of the file; empty for a file of another kind."""
    identity = sha256()
    try:
        with tarfile.open(path, "r:", errors="surrogateescape") as archive:
            for info in archive:
                identity.update(_identity_line(archive, info))
    except (OSError, tarfile.TarError):
        return ""
    return identity.hexdigest()[:32]


def packed_copies(directory: Path) -> dict[PackedTemplate, bool]:
    """The templates among the files of a directory, and whether each has more than files to be laid over another."""
    paths = sorted(directory.iterdir()) if directory.is_dir() else []
    found = [PackedTemplate(path.name, packed_identity(path)) for path in paths]
    return {copy: _has_base(directory / copy.digest) for copy in found if copy.identity}


def _has_base(path: Path) -> bool:
    with tarfile.open(path, "r:", errors="surrogateescape") as archive:
        first = archive.next()
    return first is None or first.name == COMMIT or first.name.startswith(TREE)


def _identity_line(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    """What a member of the file contributes to the identity; see `_pack_entry`."""
    told = f"{info.name}\0{info.mode:o}\0".encode("utf-8", "surrogateescape")
    if info.issym():
        return b"l" + told + os.fsencode(info.linkname) + b"\n"
    if info.isdir():
        return b"d" + told + b"\n"
    member = archive.extractfile(info)
    if member is None or info.name in {OBJECTS, SHALLOW}:
        return b""
    if info.name == COMMIT:
        return b"commit " + member.read().strip()
    digest = sha256()
    while data := member.read(_CHUNK):
        digest.update(data)
    return b"f" + told + digest.hexdigest().encode() + b"\n"


def recorded_commit(path: Path) -> str:
    """The commit of a repository in its file; empty for a directory, and where the file cannot be read."""
    try:
        return read_small_members(path).get(COMMIT, b"").decode().strip()
    except (OSError, tarfile.TarError):
        return ""
