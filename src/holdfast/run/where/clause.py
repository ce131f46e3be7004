"""Clauses of an expression that selects trials: comparisons, and `and`, `or` and `not`.

A clause carries, beside its test, the status values for which it can be true and those for which it can be false. Both
sets may be too large, never too small; that keeps them correct under every combination.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from holdfast.run.core.records import Coordinates

STATES = ("valid", "limited", "blocked", "failed", "unfinished", "not_started")
ANY_STATE = frozenset(STATES)


class Names(NamedTuple):
    """The names that a run adds to the fields of an expression."""

    axes: frozenset[str] = frozenset()
    scorers: frozenset[str] = frozenset()
    has_slots: bool = False
    """Whether it selects score slots: then it may name their `scorer` and their `judge`."""
    columns: Callable[[], Iterable[str]] = tuple
    """The metadata that samples have; asked for only where a name is unknown."""
    values: Mapping[str, Collection[str]] = {}
    """The values that `task`, `model` and each `axes.NAME` have in the run, where they are known."""


class Selectable(Protocol):
    """What an expression asks about a trial; every answer may be computed when it is asked for."""

    @property
    def coordinates(self) -> Coordinates:
        """Which trial it is; the sample is empty where that is unknown."""
        ...

    def field(self, name: str) -> str | float | int | None:
        """A built-in field by its name; `status` is one of STATES."""
        ...

    def axis(self, name: str) -> str | None: ...

    def score(self, name: str) -> float | None: ...

    def metadata(self, path: tuple[str, ...]) -> object:
        """The value at a path into the sample's metadata; None if absent."""
        ...

    def text(self, name: str) -> object:
        """The `input`, the `target` or the `answer`; None if there is none."""
        ...


TrialTest = Callable[[Selectable], bool]


class Clause(NamedTuple):
    """A part of an expression: true or false of a trial."""

    test: TrialTest
    fields: frozenset[str]
    """What it asks for: names of built-in fields, and "axes", "scores", "metadata"."""
    true_in: frozenset[str] = ANY_STATE
    """The status values for which it can be true."""
    false_in: frozenset[str] = ANY_STATE


def any_of(clauses: Sequence[Clause]) -> Clause:
    """True where one of the clauses is. Many clauses do not nest: tests of any number of them need no deep stack."""
    if len(clauses) == 1:
        return clauses[0]
    return Clause(
        _asking_in_turn([clause.test for clause in clauses], decisive=True),
        _union(clause.fields for clause in clauses),
        true_in=_union(clause.true_in for clause in clauses),
        false_in=ANY_STATE.intersection(*(clause.false_in for clause in clauses)),
    )


def all_of(clauses: Sequence[Clause]) -> Clause:
    """True where all of the clauses are."""
    if len(clauses) == 1:
        return clauses[0]
    return Clause(
        _asking_in_turn([clause.test for clause in clauses], decisive=False),
        _union(clause.fields for clause in clauses),
        true_in=ANY_STATE.intersection(*(clause.true_in for clause in clauses)),
        false_in=_union(clause.false_in for clause in clauses),
    )


def negation(clause: Clause) -> Clause:
    """True where the clause is not."""
    test = clause.test
    return Clause(
        lambda candidate: not test(candidate), clause.fields, true_in=clause.false_in, false_in=clause.true_in
    )


def _asking_in_turn(tests: Sequence[TrialTest], *, decisive: bool) -> TrialTest:
    """A test that asks others in turn: the decisive answer as soon as one gives it, else the other."""

    # `any` and `all` would take three frames of the stack for each level, and about twice the time.
    def test(candidate: Selectable) -> bool:
        for one in tests:
            if one(candidate) == decisive:
                return decisive
        return not decisive

    return test


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)
