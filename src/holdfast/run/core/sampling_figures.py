"""Figures about samplings, in whole numbers that can be added up: those of one trial, and the sums of many.

A sum does not depend on the order in which trials are read, so a report about samplings is the same after any number
of interruptions.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Self

import msgspec

from holdfast.models.message import Usage
from holdfast.run.core.records import SamplingSummary, ShareKey, UsageShare

_MOST = 1 << 40
_MOST_TURNS = 1 << 16
"""A record that says more is wrong; sums of millions of the largest still fit into 64 bits."""
SAMPLINGS, SUCCESSES, TURNS, CALLS = "samplings", "successes", "turns", "calls"
_STRATEGY, _TURN, _CANDIDATE, _CAPPED = "strategy", "turn", "candidate", "capped"
_WASTED, _REUSED = "wasted", "reused"
_TOKENS = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")

SamplingFigure = tuple[str, str, int]
"""What is counted, of which kind (a turn, a status, a model), and how many."""


class SamplingFigures(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One sampling of a trial, as its row in the index has it."""

    strategy: str
    success: bool
    turn: int
    """Of the chosen candidate; -1 if absent."""
    turns: int
    calls: int
    candidates: tuple[tuple[str, int], ...]
    wasted: tuple[tuple[str, bool, int, int, int, int], ...]
    """Model, whether another run has paid for it, and tokens: in, out, cached and for reasoning."""
    capped: str

    @classmethod
    def of(cls, summary: SamplingSummary, *, is_reused: bool) -> Self:
        """What is counted of a sampling; `is_reused` if its whole trial was kept from another run."""
        return cls(
            summary.strategy,
            summary.success,
            min(max(summary.turn, -1), _MOST_TURNS),
            min(max(summary.turns, 0), _MOST_TURNS),
            _bounded_figure(summary.calls),
            tuple(sorted((status, _bounded_figure(count)) for status, count in summary.candidates.items())),
            tuple(_share_figures(share, is_reused) for share in summary.wasted),
            summary.capped,
        )

    def figures(self, own: str) -> Iterator[SamplingFigure]:
        """What it adds to the sums; `own` is the model of its trial."""
        yield SAMPLINGS, "", 1
        yield TURNS, "", self.turns
        yield CALLS, "", self.calls
        yield _STRATEGY, self.strategy, 1
        if self.success:
            yield SUCCESSES, "", 1
            yield _TURN, str(max(self.turn, 0)), 1
        if self.capped:
            yield _CAPPED, self.capped, 1
        for status, count in self.candidates:
            yield _CANDIDATE, status, count
        for model, is_reused, *tokens in self.wasted:
            for name, count in zip(_TOKENS, tokens, strict=True):
                yield f"{_REUSED if is_reused else _WASTED} {name}", model or own, count


def _share_figures(share: UsageShare, is_reused: bool) -> tuple[str, bool, int, int, int, int]:  # noqa: FBT001
    used = share.usage
    tokens = used.input_tokens, used.output_tokens, used.cached_input_tokens, used.reasoning_tokens
    return (share.model, share.reused or is_reused, *map(_bounded_figure, tokens))  # type: ignore[return-value]


def _bounded_figure(figure: int) -> int:
    return min(max(figure, 0), _MOST)


class SamplingSums(msgspec.Struct):
    """The samplings of many trials, added up."""

    samplings: int = 0
    successes: int = 0
    turns: int = 0
    """Turns of the deepest lanes."""
    calls: int = 0
    strategies: Counter[str] = msgspec.field(default_factory=Counter)
    successes_by_turn: Counter[int] = msgspec.field(default_factory=Counter)
    """How many have chosen a valid candidate of which turn."""
    candidates: Counter[str] = msgspec.field(default_factory=Counter)
    """By status."""
    capped: Counter[str] = msgspec.field(default_factory=Counter)
    """By the cap that was reached."""
    wasted: dict[ShareKey, Usage] = msgspec.field(default_factory=dict)
    """What candidates took that were not chosen."""

    def add(self, figures: Iterable[SamplingFigure]) -> None:
        """Takes in figures; those of a kind that this version does not know are skipped."""
        for kind, name, count in figures:
            if kind in {SAMPLINGS, SUCCESSES, TURNS, CALLS}:
                setattr(self, kind, getattr(self, kind) + count)
            elif kind == _TURN:
                self.successes_by_turn[int(name)] += count
            elif (counter := self._counters.get(kind)) is not None:
                counter[name] += count
            else:
                self._add_tokens(*kind.partition(" ")[::2], name, count)

    @property
    def _counters(self) -> dict[str, Counter[str]]:
        return {_STRATEGY: self.strategies, _CANDIDATE: self.candidates, _CAPPED: self.capped}

    def _add_tokens(self, payer: str, name: str, model: str, count: int) -> None:
        if name in _TOKENS:
            key = model, payer == _REUSED
            self.wasted[key] = self.wasted.get(key, Usage()) + Usage(**{name: count})
