"""Names of score slots: `SCORER`, or `SCORER/JUDGE` where judges score, with `@VERSION` behind later versions of it.

The version that a run had first has the plain name. Where answers were scored once more by a scorer that had changed,
the slots of the changed one have the digest of what it is behind their name (`exact@3fa2c1d0`), so both scores stay on
record.
"""

from __future__ import annotations

_SEPARATOR = "/"
VERSION_MARK = "@"
RESERVED = (_SEPARATOR, VERSION_MARK)
"""What the name of a scorer cannot hold: names of slots are made with these."""

NO_OTHER_ANSWER, OTHER_QUESTION = "no answer to compare with", "another question"
"""Why a judge that compares with another run was not asked, as the explanation of its score begins."""
WINNERS = "winners"
"""In the metadata of a pairwise score: the position that won when the answer stood first, and when it stood second."""


def judge_slot(scorer: str, judge: str) -> str:
    """The slot of a judge."""
    return f"{scorer}{_SEPARATOR}{judge}"


def versioned(name: str, version: str) -> str:
    """The slot of one version of a scorer."""
    return f"{name}{VERSION_MARK}{version}"


def base_name(slot: str) -> str:
    """The name of a slot without its version."""
    return slot.partition(VERSION_MARK)[0]


def scorer_of(slot: str) -> str:
    """The scorer that a slot belongs to, as people call it."""
    return base_name(slot).partition(_SEPARATOR)[0]


def judge_of(slot: str) -> str:
    """The judge whose slot it is; empty where no judge is."""
    return base_name(slot).partition(_SEPARATOR)[2]
