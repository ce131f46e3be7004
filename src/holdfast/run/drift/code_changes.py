"""What has changed in the code of a task and in the values it reaches, by name.

A value that is another at every import is unsteady: it is not compared, as long as the statements behind it are the
same. So is a value that cannot be compared at all, whose node holds those statements.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from holdfast.run.core.display_text import list_text
from holdfast.run.core.records import (
    BYTECODE,
    CLASS,
    CODE,
    MEMBER,
    OPAQUE,
    ORDER_OF,
    PACKAGE,
    REMEMBERED,
    STATEMENTS,
    STATEMENTS_OF,
    UNSTEADY,
    VALUE,
    CodeTree,
    TaskCode,
    ValueNode,
)

Nodes = Mapping[str, ValueNode]
_LISTED_CHANGES = 5
_CLOSED_OVER = re.compile(r"\([^()]*\)")
_CODES = {CODE, BYTECODE}
_HIDDEN = "it comes from the environment and is not shown"


class CodeChange(NamedTuple):
    """One piece of code or value that differs."""

    root: str
    name: str
    old: ValueNode | None
    new: ValueNode | None
    is_bound_alike: bool = True
    """Whether the statements behind it are the same on both sides."""

    @property
    def may_be_unsteady(self) -> bool:
        """Whether it is a value that the same statements gave, which may be another at every import."""
        kinds = {node.kind for node in (self.old, self.new) if node}
        return self.is_bound_alike and not kinds & {*_CODES, PACKAGE}

    @property
    def may_be_order(self) -> bool:
        """Whether nothing but an order may differ, which two loads have in common by chance."""
        if self.old is None or self.new is None or self.name.endswith(ORDER_OF):
            return True
        return _may_be_shuffled(self.old.text, self.new.text)

    @property
    def is_edit(self) -> bool:
        """Whether it is on both sides."""
        return self.old is not None and self.new is not None

    def sentence(self, place: str, *, mutated: bool = False) -> str:
        """The sentence for people; `place` is the file, where it is known."""
        where = f" in {place}" if place else ""
        hint = (
            "; this process has changed it since it was loaded: restart the kernel, or make it anew for each evaluate"
            if mutated
            else ""
        )
        return self._sentence(where) + hint

    def _sentence(self, where: str) -> str:
        kinds = {node.kind for node in (self.old, self.new) if node is not None}
        if PACKAGE in kinds:
            return f"the {self.name} has changed: {_text(self.old, 'not used')} → {_text(self.new, 'not used')}"
        if kinds & _CODES:
            return _code_sentence(self.name, self.old, self.new, where)
        if self.name.endswith(ORDER_OF):
            return f"the order of {self.name.removesuffix(ORDER_OF)}{where} {_value_words(self.old, self.new)}"
        return f"{self.name}{where} {_value_words(self.old, self.new)}"


def _may_be_shuffled(old: str, new: str) -> bool:
    """Whether two texts may be made of the same parts; of those that are cut, not all is known."""
    if old.endswith("…") and new.endswith("…"):
        return True
    return sorted(old) == sorted(new)


def _value_words(old: ValueNode | None, new: ValueNode | None) -> str:
    """How a value has changed."""
    if old is None or new is None:
        return f"is new: {_text(new)}" if old is None else f"has gone; before: {_text(old)}"
    if OPAQUE in {old.kind, new.kind}:
        return f"cannot be compared ({new.text or old.text}), and the lines that set it have changed"
    if old.text != new.text:
        return f"has changed: {_text(old)} → {_text(new)}"
    return f"has changed; it begins as before: {new.text}" if new.text else f"has changed; {_HIDDEN}"


def _text(node: ValueNode | None, absent: str = "unset") -> str:
    return absent if node is None else node.text or "(not shown)"


def _code_sentence(name: str, old: ValueNode | None, new: ValueNode | None, where: str) -> str:
    is_class = CLASS in {node.text for node in (old, new) if node is not None}
    what = f"the {name.removesuffix(' (body)')}" if is_class else name
    if old is None:
        return f"{what}{where} can be reached by the task and could not before"
    if new is None:
        return f"{what} can no longer be reached by the task"
    compiled = " (its source was not known, so compiled code is compared)" if BYTECODE in {old.kind, new.kind} else ""
    return f"the code of {what}{where} has changed{compiled}"


def code_changes(
    old: CodeTree | None, new: CodeTree | None, unsteady: Mapping[str, Collection[str]] | None = None
) -> dict[str, list[CodeChange]]:
    """By root, what differs; a root that only one side has is not compared here."""
    if old is None or new is None:
        return {}
    known = unsteady or {}
    found = {
        root: _changes(root, old.roots[root], new.roots[root], known.get(root, ()))
        for root in old.roots
        if root in new.roots
    }
    return {root: changes for root, changes in found.items() if changes}


def _changes(root: str, old: Nodes, new: Nodes, unsteady: Collection[str]) -> list[CodeChange]:
    found = []
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if STATEMENTS in {node.kind for node in (before, after) if node is not None} or _is_same(before, after):
            continue
        if _is_of_whole(before, after):
            continue
        if REMEMBERED in name and (before is None or after is None):
            # Without it, the same is worked out when it is first needed.
            continue
        is_bound_alike = _same_statements(name, old, new)
        if is_bound_alike and _is_exempt(name, before, unsteady, old):
            continue
        found.append(CodeChange(root, name, before, after, is_bound_alike))
    return _without_renames(found)


def _is_same(old: ValueNode | None, new: ValueNode | None) -> bool:
    return old is not None and new is not None and (_kind(old), old.digest) == (_kind(new), new.digest)


def _kind(node: ValueNode) -> str:
    return VALUE if node.kind == MEMBER else node.kind


def _is_of_whole(old: ValueNode | None, new: ValueNode | None) -> bool:
    """Whether a member of a container has come or gone, or is a node of its own on one side: the whole says so."""
    kinds = {node.kind for node in (old, new) if node is not None}
    if old is None or new is None:
        return kinds == {MEMBER}
    return kinds == {MEMBER, VALUE} and old.text == new.text


def _is_exempt(name: str, old: ValueNode | None, unsteady: Collection[str], saved: Nodes) -> bool:
    """Whether a value is known to be another at every import, or is part of one."""
    if name in unsteady or (old is not None and old.kind == UNSTEADY):
        return True
    return old is None and any(node.kind == UNSTEADY and _is_inside(name, other) for other, node in saved.items())


def _is_inside(name: str, other: str) -> bool:
    return name.startswith((f"{other}[", f"{other}.", f"{other}("))


def _same_statements(name: str, old: Nodes, new: Nodes) -> bool:
    owner = _statements_behind(name, new) or _statements_behind(name, old)
    return not owner or _is_same(old.get(owner), new.get(owner))


def _statements_behind(name: str, nodes: Nodes) -> str:
    """The name of the node with the statements that a value comes from: its own, or those of what holds it."""
    while name:
        if name + STATEMENTS_OF in nodes:
            return name + STATEMENTS_OF
        name = _holder(name)
    return ""


def _without_renames(changes: list[CodeChange]) -> list[CodeChange]:
    """Without variables of a closure that only have other names, in code that is otherwise the same."""
    gone = [change for change in changes if change.new is None]
    come = [change for change in changes if change.old is None]
    if len(gone) != len(come) or not gone or any(map(_is_code_edit, changes)):
        return changes
    pairs = zip(gone, come, strict=True)
    if all(_is_same(one.old, other.new) and _unnamed(one.name) == _unnamed(other.name) for one, other in pairs):
        return [change for change in changes if change.is_edit]
    return changes


def _unnamed(name: str) -> str:
    return _CLOSED_OVER.sub("()", name)


def _is_code_edit(change: CodeChange) -> bool:
    return change.is_edit and change.old is not None and change.old.kind in _CODES


def unsteady_names(changes: Sequence[CodeChange], first: Nodes, second: Nodes) -> set[str]:
    """Those of the changes that are explained by a second load of the same code: what two loads do not agree on."""
    differing = {name for name in {*first, *second} if not _is_same(first.get(name), second.get(name))}
    holders = {_holder(name) for name in differing}
    return {
        change.name
        for change in changes
        if change.may_be_unsteady
        and (change.name in differing or (change.new is None and _holder(change.name) in holders - {""}))
    }


def without_holders(names: Collection[str]) -> list[str]:
    """The names without those of containers of which a part is named as well, sorted."""
    return sorted(name for name in names if not any(_is_inside(other, name) for other in names))


def place_of(name: str, places: Mapping[str, str]) -> str:
    """The file of a value, or of what holds it; one that has gone is where its holder is."""
    while name and name not in places:
        name = _holder(name)
    return places.get(name, "")


def _holder(name: str) -> str:
    cut = max(name.rfind(mark) for mark in "[.(")
    return name[:cut].rstrip() if cut > 0 else ""


def with_unsteady(tree: CodeTree, saved: CodeTree | None, unsteady: Mapping[str, Collection[str]]) -> CodeTree:
    """The tree to record: values that are another at every import are marked, and keep neither digest nor text."""
    roots = {}
    for root, nodes in tree.roots.items():
        before = saved.roots.get(root, {}) if saved is not None else {}
        marked = {name for name, node in before.items() if node.kind == UNSTEADY} | set(unsteady.get(root, ()))
        plain = {
            name: node
            for name, node in nodes.items()
            if name not in marked and not (name not in before and any(_is_inside(name, other) for other in marked))
        }
        roots[root] = dict(sorted({**plain, **{name: ValueNode(UNSTEADY) for name in marked}}.items()))
    return CodeTree(tree.salt, roots)


def _without_orders(changes: Sequence[CodeChange]) -> list[CodeChange]:
    """Without the order of a map that differs otherwise as well: another order follows from that."""
    others = [change.name for change in changes if not change.name.endswith(ORDER_OF)]
    return [change for change in changes if not _is_follow_up(change.name, others)]


def _is_follow_up(name: str, others: Sequence[str]) -> bool:
    home = name.removesuffix(ORDER_OF)
    return home != name and any(other == home or other.startswith(f"{home}[") for other in others)


def _without_wholes(changes: Sequence[CodeChange]) -> list[CodeChange]:
    """Without containers of which members are named that have changed."""
    members = [change.name for change in changes if change.old is not None and change.old.kind == MEMBER]
    return [
        change
        for change in changes
        if not _begins_alike(change) or not any(_is_inside(name, change.name) for name in members)
    ]


def _begins_alike(change: CodeChange) -> bool:
    return change.old is not None and change.new is not None and change.old.text == change.new.text


def first_changes(changes: Sequence[CodeChange]) -> tuple[list[CodeChange], int]:
    """The changes to name, and how many more there are; what follows from an edit is left out beside the edit."""
    changes = _without_wholes(_without_orders(changes))
    edits = [change for change in changes if change.is_edit]
    code = [change for change in edits if change.old is not None and change.old.kind in _CODES]
    listed = [*code, *(change for change in edits if change not in code)] or list(changes)
    return listed[:_LISTED_CHANGES], len(listed) - min(len(listed), _LISTED_CHANGES)


def opaque_values(trees: Sequence[CodeTree | None]) -> dict[str, str]:
    """The values that cannot be compared, each with the reason or its type."""
    nodes = [item for tree in trees if tree is not None for reached in tree.roots.values() for item in reached.items()]
    return {name: node.text for name, node in nodes if node.kind == OPAQUE}


def opaque_line(values: Mapping[str, str]) -> str:
    """The one line about them; empty where there are none."""
    if not values:
        return ""
    listed = list_text([f"{name} ({why})" for name, why in values.items()])
    return f"{len(values)} {'value' if len(values) == 1 else 'values'} cannot be compared: {listed}"


def is_lost(code: TaskCode | None) -> bool:
    """Whether the tree of a task, as `recorded_code` gives it, was in the record of a session that is damaged."""
    return code is not None and code.tree is None and code.tree_session > 0
