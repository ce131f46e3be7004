"""What a power loss may leave of files and directories, given what was synced.

The model is the weakest filesystem that POSIX allows: bytes survive for certain only once they are synced, names only
once their directory is. Of what is not synced, any subset may survive: of each write nothing, a beginning, or its
full length with zeros in place of a part of the data; of each renamed file the old name, the new one, or both. Bytes
whose sync has failed are readable until the power goes, and no later sync makes them durable.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

CrashState = dict[str, bytes | None]
"""A state of the disk: relative path → content, None for a directory."""
_Form = TypeVar("_Form")


class FileNode:
    """One file: what is on stable storage, and the writes that are not yet."""

    def __init__(self) -> None:
        self.durable = b""
        self.pending: list[bytes] = []
        self._forsaken = False

    def sync(self) -> None:
        if not self._forsaken:
            self.durable += b"".join(self.pending)
            self.pending = []

    def sync_failed(self) -> None:
        """The kernel has told its one error and holds the pages for clean: a later sync succeeds and does nothing."""
        self._forsaken = True


class DirectoryNode:
    """One directory: its entries on stable storage, and the changes of names that are not yet."""

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.pending: list[dict[str, Node | None]] = []

    def change(self, change: dict[str, Node | None]) -> None:
        self.pending.append(change)
        apply_change(self.entries, change)

    def sync(self) -> None:
        for change in self.pending:
            apply_change(self.durable, change)
        self.pending = []


Node = FileNode | DirectoryNode


def apply_change(entries: dict[str, Node], change: dict[str, Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def torn_forms(data: bytes) -> list[bytes | None]:
    """What may be left of one unsynced write: nothing, a beginning, its length with parts of it zero, or all of it."""
    size = len(data)
    cuts = sorted({1, size // 3, size // 2, size - 1} & set(range(1, size)))
    middle = size // 2
    zeroed = [bytes(size), data[:middle] + bytes(size - middle), bytes(middle) + data[middle:]]
    return [None, *(data[:cut] for cut in cuts), *zeroed, data]


def _surviving_content(node: FileNode, forms: Sequence[bytes | None]) -> bytes:
    """The durable bytes and what is left of each later write; one may survive another before it, over zeros."""
    content, gap = node.durable, 0
    for write, form in zip(node.pending, forms, strict=True):
        if form is None:
            gap += len(write)
        else:
            content += bytes(gap) + form
            gap = len(write) - len(form)
    return content


def file_states(node: FileNode) -> list[bytes]:
    """Every content a file may have after a power loss."""
    choices = itertools.product(*(torn_forms(write) for write in node.pending))
    return list(dict.fromkeys(_surviving_content(node, forms) for forms in choices))


def _change_forms(change: dict[str, Node | None]) -> list[dict[str, Node | None]]:
    """What may be left of one change of names: nothing, all of it, or a file under its old and its new name."""
    added: dict[str, Node | None] = {name: node for name, node in change.items() if isinstance(node, FileNode)}
    return [{}, change] if len(added) in {0, len(change)} else [{}, change, added]


def _entries(node: DirectoryNode, forms: Sequence[dict[str, Node | None]]) -> dict[str, Node]:
    entries = dict(node.durable)
    for form in forms:
        apply_change(entries, form)
    return entries


def crash_states(node: Node, at: str = "") -> Iterator[CrashState]:
    """Every state of the disk below `node` that a power loss at this moment may leave."""
    if isinstance(node, FileNode):
        for content in file_states(node):
            yield {at: content}
        return
    for forms in itertools.product(*(_change_forms(change) for change in node.pending)):
        entries = _entries(node, forms)
        # A file that has two names has one content.
        names = {id(child): [name for name, other in entries.items() if other is child] for child in entries.values()}
        below = [list(crash_states(child)) for child in {id(child): child for child in entries.values()}.values()]
        for combination in itertools.product(*below):
            yield _tree(at, zip(names.values(), combination, strict=True))


def random_crash_state(node: Node, chance: random.Random, at: str = "") -> CrashState:
    """One of the states that `crash_states` gives, chosen by chance."""

    def pick(forms: Sequence[_Form]) -> _Form:
        return chance.choice(forms)

    if isinstance(node, FileNode):
        return {at: _surviving_content(node, [pick(torn_forms(write)) for write in node.pending])}
    entries = _entries(node, [pick(_change_forms(change)) for change in node.pending])
    chosen = {id(child): random_crash_state(child, chance) for child in entries.values()}
    return _tree(at, (([name], chosen[id(child)]) for name, child in entries.items()))


def _tree(at: str, children: Iterable[tuple[list[str], CrashState]]) -> CrashState:
    tree: CrashState = {at: None} if at else {}
    for names, below in children:
        for name in names:
            place = f"{at}/{name}".lstrip("/")
            tree[place] = below.get("")
            tree.update({f"{place}/{path}": content for path, content in below.items() if path})
    return tree
