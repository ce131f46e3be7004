"""The spellings of a trial's reference, wherever one is read: `fr#1`, `capitals/small/3f2a9c1e#1,prompt=plain`.

The task, the model and the axes may be left out. A sample without an id is named by the first digits of its digest.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.run.core.display_text import digest_of
from holdfast.run.core.records import Coordinates

FEWEST_DIGITS = 4
"""Fewer are not taken for the beginning of a digest or a key: a mistyped id would name some trial."""


def axes_text(axes: Mapping[str, str]) -> str:
    """The axes at the end of a reference; empty for a trial without any."""
    return "".join(f",{name}={value}" for name, value in axes.items())


def sample_spellings(text: str, task: str, model: str, axes: str) -> set[str]:
    """The samples, perhaps with an epoch, that a text can mean among the trials of one task, model and axes."""
    return {
        text[len(prefix) : len(text) - len(suffix)]
        for prefix in ("", f"{task}/", f"{model}/", f"{task}/{model}/")
        for suffix in ("", axes)
        if text.startswith(prefix) and text.endswith(suffix) and len(prefix) + len(suffix) <= len(text)
    }


def is_digest_beginning(name: str, sample: str) -> bool:
    """Whether a name is the first digits of a sample's digest; `~2` and the like in full."""
    digits, _, number = name.partition("~")
    is_number = number == sample.partition("~")[2]
    return len(digits) >= FEWEST_DIGITS and digest_of(sample).startswith(digits) and is_number


def is_reference(text: str, trial: Coordinates) -> bool:
    """Whether a text with an epoch names this trial."""
    end = f"#{trial.epoch}"
    for spelled in sample_spellings(text, trial.task, trial.model, axes_text(trial.axes)):
        name = spelled.removesuffix(end)
        if name != spelled and (name == trial.sample or is_digest_beginning(name, trial.sample)):
            return True
    return False
