"""Nodes of a tree: the bytes of a value that are compared, and the few words that people read."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from holdfast.run.core.records import VALUE

SHOWN = 80
"""Characters of a value that a message shows."""
SCALARS = frozenset({type(None), bool, int, float, complex, str, bytes})


class TakenNode(NamedTuple):
    """One entry of a tree, before it is salted."""

    kind: str
    spelled: bytes
    text: str


def is_scalar(value: object) -> bool:
    """Whether a value is exactly a number, a text, bytes or nothing."""
    return type(type(value)) is type and type(value) in SCALARS


def shown_text(text: str, before: str = "") -> str:
    """A text as a message shows it: in one line, and cut."""
    whole = before + repr(text[: 2 * SHOWN])
    return shown_line(whole) if len(text) <= 2 * SHOWN else f"{whole[: SHOWN - 1]}…"


def shown_line(whole: str) -> str:
    """As much of a line as is shown."""
    return whole if len(whole) <= SHOWN else f"{whole[: SHOWN - 1]}…"


def joined_nodes(nodes: Mapping[str, TakenNode], path: str) -> bytes:
    parts = (
        f"{key.removeprefix(path)} {node.kind} {len(node.spelled)} ".encode(errors="surrogatepass") + node.spelled
        for key, node in nodes.items()
    )
    return b"\0".join(parts)


def order_node(order: list[str]) -> TakenNode:
    """The order of keys or names, each in brackets or with a character on either side."""
    whole = blake2b("".join(order).encode(errors="surrogatepass"), digest_size=16).digest()
    return TakenNode(VALUE, b"order " + whole, shown_line(", ".join(key[1:-1] for key in order[:SHOWN])))
