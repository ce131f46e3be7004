"""Names of tasks, models, scorers and samples as a run can have them, made of those of other tools."""

from __future__ import annotations

import re
from functools import lru_cache

from holdfast.digests import content_digest
from holdfast.models.message import encodable
from holdfast.run.core.slots.slot_names import RESERVED

_LONGEST = 120
_LONGEST_ID = 200
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]+")


@lru_cache(4096)
def valid_name(text: str, fallback: str = "unnamed") -> str:
    """A name of a task or a model: in one line, of moderate length, and different for different texts."""
    return _told_apart(" ".join(_CONTROLS.sub(" ", str(encodable(text))).split()), text) or fallback


@lru_cache(4096)
def scorer_name(text: str) -> str:
    """The name of a scorer: slots are named with two characters that it cannot have."""
    name = text
    for character in RESERVED:
        name = name.replace(character, ".")
    return valid_name(name, "score") if name == text else _marked(valid_name(name, "score"), text)


@lru_cache(4096)
def judge_name(text: str) -> str:
    """The name of a judge, which may have a slash in it."""
    return valid_name(text, "judge").replace("@", ".")


def sample_id(text: str) -> str:
    """The id of a sample."""
    return _with_digest(_CONTROLS.sub(" ", str(encodable(text))), _LONGEST_ID) or "sample"


def eval_title(text: str) -> str:
    """The name of an eval."""
    return valid_name(text, "imported").replace("/", "-")


def _told_apart(name: str, text: str) -> str:
    """A name that is made of a text; with a digest of it where another text could have the same name."""
    return _with_digest(name, _LONGEST) if name in (text.strip(), "") else _marked(name, text)


def _marked(name: str, text: str) -> str:
    return f"{name[: _LONGEST - 9].rstrip()}…{content_digest(text.encode(errors='surrogatepass'))[:8]}"


def _with_digest(text: str, longest: int) -> str:
    """A long text by its beginning and a digest of all of it."""
    return text if len(text) <= longest else f"{text[: longest - 9].rstrip()}…{content_digest(text.encode())[:8]}"
