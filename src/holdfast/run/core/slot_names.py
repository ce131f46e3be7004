"""Names of score slots: `SCORER` or, where judges score, `SCORER/JUDGE`."""

from __future__ import annotations

_SEPARATOR = "/"
RESERVED = (_SEPARATOR, "@")
"""What the name of a scorer cannot hold: names of slots are made with these."""

WINNERS = "winners"
"""In the metadata of a pairwise score: the position that won when the answer stood first, and when it stood second."""


def judge_slot(scorer: str, judge: str) -> str:
    """The slot of a judge."""
    return f"{scorer}{_SEPARATOR}{judge}"


def scorer_of(slot: str) -> str:
    """The scorer that a slot belongs to."""
    return slot.partition(_SEPARATOR)[0]


def judge_of(slot: str) -> str:
    """The judge whose slot it is; empty where no judge is."""
    return slot.partition(_SEPARATOR)[2]
