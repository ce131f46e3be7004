"""What a person offers to a run: an eval, and how the same would be offered to a new run."""

from __future__ import annotations

import msgspec

from holdfast.spec import EvalSpec


class Offer(msgspec.Struct, frozen=True):
    """A resolved eval that is offered to a run, through an edited file, changed settings or a call in Python."""

    spec: EvalSpec
    titles: frozenset[str] = frozenset()
    """Which of `name`, `description` and `tags` were set by hand: those are changed, others are not compared."""
    fork_words: tuple[str, ...] | None = None
    """The options with which `holdfast fork RUN` offers the same; None where no options can."""
    rescoring: bool = False
    """Whether recorded answers are scored once more: then how they are judged may change."""
    run_words: tuple[str, ...] | None = None
    """The words with which `holdfast run` starts a new run of the same; None where no words can."""
