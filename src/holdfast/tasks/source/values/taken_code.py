"""What the parts of a task reach, as it was taken, and as it is recorded in a run: salted.

Nothing here takes anything: a task of built-in parts alone reaches no code, and loads none of the modules that do.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple

from holdfast.run.core.records import BYTECODE, CodeTree, ValueNode

if TYPE_CHECKING:
    from holdfast.tasks.source.values.spelling.taken_nodes import TakenNode

_DIGEST_BYTES = 8


class TakenCode(NamedTuple):
    """What the parts of a task reach, as it was when it was taken."""

    roots: Mapping[str, Mapping[str, TakenNode]]
    files: list[Path]
    """The person's own files that it comes from."""
    places: Mapping[str, str]
    """By name, the file in which a person finds it."""
    mutated: frozenset[str]
    """The names of what has changed since this process took them first."""

    codes: Mapping[str, Mapping[str, CodeType]]
    """By root and name, the functions as they run."""

    def salted(self, salt: str, like: CodeTree | None = None) -> CodeTree:
        """The tree as it is recorded in the run that has this salt.

        A function whose source was not known when `like` was recorded is given in the same way, as compiled code.
        """
        if not self.roots:
            return CodeTree(salt, {})
        from holdfast.tasks.source.values.spelling.hidden_texts import TextMask  # noqa: PLC0415 - see the module
        from holdfast.tasks.source.values.walk.held_values import compiled_node  # noqa: PLC0415

        key, roots = bytes.fromhex(salt), {}
        mask = TextMask() if like is not None else None
        for root, nodes in self.roots.items():
            before = {} if like is None else like.roots.get(root, {})
            compiled = {
                name: compiled_node(code, mask)
                for name, code in self.codes[root].items()
                if mask is not None and name in before and before[name].kind == BYTECODE
            }
            roots[root] = {_legible(name): _salted_node(compiled.get(name, nodes[name]), key) for name in sorted(nodes)}
        return CodeTree(salt, roots)


def _salted_node(node: TakenNode, key: bytes) -> ValueNode:
    return ValueNode(
        node.kind, blake2b(node.spelled, digest_size=_DIGEST_BYTES, key=key).hexdigest(), _legible(node.text)
    )


def _legible(name: str) -> str:
    """What can be written in a record: halves of characters, which a text of Python may have, are spelled out."""
    return name.encode(errors="backslashreplace").decode()


NO_CODE = TakenCode({}, [], {}, frozenset(), {})
"""Of a task without code of its own."""
