"""Fields of an expression that selects trials: which one a name means, and what it can be compared with.

Built-in names come first. A bare name is then an axis or a scorer of the run; `axes.`, `scores.` and `metadata.` say
which is meant. Last come the texts of a trial.
"""

from collections.abc import Callable
from typing import NamedTuple

from holdfast.errors import UsageError
from holdfast.run.where.clause import ANY_STATE, STATES, Clause, Names, Selectable, TrialTest
from holdfast.run.where.tokens import Token, WhereText, in_quotes
from holdfast.run.where.trial_spelling import is_reference
from holdfast.run.where.values import (
    EQUALITIES,
    ORDERS,
    Tester,
    is_missing,
    mixed_tester,
    number_tester,
    prefix_tester,
    read_number,
    text_tester,
)
from holdfast.suggestions import listing, nearest_name

_CHOICES = {"status": STATES, "transcript": ("whole", "lost")}
_TEXTS = ("reason", "task", "model", "sample", "trial")
_NUMBERS = ("epoch", "attempt", "cost", "tokens", "seconds")
_BUILT_IN = (*_CHOICES, *_TEXTS, *_NUMBERS)
_OF_SLOTS = ("scorer", "judge")
"""What says of a score slot whose it is."""
_OTHER_NAMES = {"state": "status"}
"""As tables and JSON call it; an axis or a scorer of this name comes first, for expressions that mean it."""
_CONTENTS = ("input", "target", "answer")
"""What was asked, expected and answered; an axis or a scorer of this name comes first, as above."""
_SOURCES = ("axes", "scores", "metadata")


class Compared(NamedTuple):
    """The three parts of a comparison, as they were written."""

    field: Token
    operator: Token
    value: Token

    @property
    def symbol(self) -> str:
        return "=" if self.operator.text == "==" else self.operator.text


class FieldCompiler:
    """Makes clauses of comparisons, with the names of one run."""

    def __init__(self, text: WhereText, names: Names) -> None:
        self._text = text
        self._names = names
        self.unknown_values: list[str] = []
        """Sentences about values that no trial of the run has, each with the nearest one or all that there are."""

    def compile(self, compared: Compared) -> Clause:
        """The clause of a comparison.

        Raises:
            UsageError: there is no such field, or it cannot be compared in this way.
        """
        source, name = self._source_of(compared.field)
        if source in _CHOICES:
            return self._choice(compared, source)
        if source == "trial" and compared.symbol != "~" and "#" in compared.value.text:
            return self._reference(compared)
        tester = self._tester(source, compared)
        self._note_unknown_value(f"axes.{name}" if source == "axes" else name, compared, tester)
        return Clause(_asking(_reader(source, name), tester), frozenset([source]))

    def _note_unknown_value(self, name: str, compared: Compared, tester: Tester) -> None:
        """A value that no trial has is not an error: another part of the expression may match."""
        known = self._names.values.get(name)
        if not known or compared.symbol not in {"=", "~"} or any(map(tester, known)):
            return
        nearest = nearest_name(compared.value.text, known)
        meant = "" if nearest is None else f"Did you mean {in_quotes(nearest)}? "
        field, value = compared.field.text, in_quotes(compared.value.text)
        self.unknown_values.append(f"No trial has the {field} {value}. {meant}Known: {listing(known)}.")

    def _tester(self, source: str, compared: Compared) -> Tester:
        if source in (*_TEXTS, *_OF_SLOTS):
            return self._text_tester(compared)
        if source in _NUMBERS or source == "scores":
            return self._number_tester(compared)
        return mixed_tester(compared.symbol, compared.value.text)

    def _text_tester(self, compared: Compared) -> Tester:
        self._refuse_order(compared)
        if compared.field.text != "trial":
            return text_tester(compared.symbol, compared.value.text)
        if not compared.value.text:
            # Every key begins with it: a shell variable that is not set must not select the whole run.
            raise self._text.error(compared.value.position, "the trial key is empty", "write the beginning of a key")
        return prefix_tester(compared.symbol, compared.value.text)

    def _reference(self, compared: Compared) -> Clause:
        """A trial by its sample and epoch. Keys have no "#", so this is never the beginning of one."""
        self._refuse_order(compared)
        wanted, is_equal = compared.value.text, compared.symbol == "="

        def test(candidate: Selectable) -> bool:
            about = candidate.coordinates
            return bool(about.sample) and is_reference(wanted, about) is is_equal

        return Clause(test, frozenset(["sample", "epoch", "task", "model", "axes"]))

    def _number_tester(self, compared: Compared) -> Tester:
        field, value = in_quotes(compared.field.text), compared.value
        if compared.symbol == "~":
            what = f"{field} is a number and cannot be compared with ~"
            raise self._text.error(compared.operator.position, what, f"use {', '.join((*EQUALITIES, *ORDERS))}")
        number = read_number(value.text)
        if number is None:
            way_out = f"{field} can only be compared with a number"
            raise self._text.error(value.position, f"{in_quotes(value.text)} is not a number", way_out)
        return number_tester(compared.symbol, number)

    def _refuse_order(self, compared: Compared) -> None:
        if compared.symbol in ORDERS:
            what = f"{in_quotes(compared.field.text)} is text and cannot be compared with {compared.symbol}"
            raise self._text.error(compared.operator.position, what, "use =, != or ~")

    def _choice(self, compared: Compared, name: str) -> Clause:
        """A field with a few values: those that pass are known now."""
        self._refuse_order(compared)
        wanted = compared.value.text.replace(" ", "_")
        tester = text_tester(compared.symbol, wanted)
        passing = frozenset(choice for choice in _CHOICES[name] if tester(choice))
        if wanted not in _CHOICES[name] and (compared.symbol != "~" or not passing):
            nearest = nearest_name(wanted, _CHOICES[name])
            raise self._unknown(compared.value, name, nearest, f"Known: {', '.join(_CHOICES[name])}")
        states = {"true_in": passing, "false_in": ANY_STATE - passing} if name == "status" else {}
        return Clause(lambda candidate: candidate.field(name) in passing, frozenset([name]), **states)

    def _source_of(self, field: Token) -> tuple[str, str]:
        """Where a field comes from, as `Where.fields` says it, and its name there."""
        if field.text in self._built_in:
            return field.text, field.text
        source, dot, name = field.text.partition(".")
        if dot and source in _SOURCES:
            return source, self._known_name(field, source, name)
        found = [source for source in ("axes", "scores") if field.text in self._known_in(source)]
        if len(found) == 1:
            return found[0], field.text
        if not found and field.text in _CONTENTS:
            return field.text, field.text
        if not found and field.text in _OTHER_NAMES:
            return _OTHER_NAMES[field.text], _OTHER_NAMES[field.text]
        raise self._ambiguous(field) if found else self._unknown_field(field)

    @property
    def _built_in(self) -> tuple[str, ...]:
        return (*_BUILT_IN, *_OF_SLOTS) if self._names.has_slots else _BUILT_IN

    def _known_in(self, source: str) -> frozenset[str]:
        return self._names.axes if source == "axes" else self._names.scorers

    def _known_name(self, field: Token, source: str, name: str) -> str:
        if not all(name.split(".") if source == "metadata" else [name]):
            raise self._nameless(field, source)
        if source == "metadata" or name in self._known_in(source):
            return name
        raise self._unknown_field(field)

    def _nameless(self, field: Token, source: str) -> UsageError:
        way_out = f"write {source}.NAME, and quote all of it if the name has spaces"
        return self._text.error(field.position, f"a name is missing in {in_quotes(field.text)}", way_out)

    def _ambiguous(self, field: Token) -> UsageError:
        spellings = " or ".join(in_quotes(f"{source}.{field.text}") for source in ("axes", "scores"))
        what = f"{in_quotes(field.text)} is both an axis and a scorer"
        return self._text.error(field.position, what, f"write {spellings}")

    def _unknown_field(self, field: Token) -> UsageError:
        if field.text in _SOURCES:
            return self._nameless(field, field.text)
        axes, scorers = listing(self._names.axes), listing(self._names.scorers)
        note = f"Known: {', '.join((*self._built_in, *_CONTENTS))}, metadata.NAME; axes: {axes}; scorers: {scorers}"
        return self._unknown(field, "field", self._nearest_field(field.text), note)

    def _nearest_field(self, text: str) -> str | None:
        source, dot, name = text.partition(".")
        if text in self._names.columns():
            return f"metadata.{text}"
        axes = {name: f"axes.{name}" for name in self._names.axes}
        scorers = {name: f"scores.{name}" for name in self._names.scorers}
        if source in _SOURCES:
            # The name decides, not the prefix that all have; of an axis and a scorer, the one that was asked for.
            known = axes | scorers if source == "scores" else scorers | axes
            found = nearest_name(name, known)
            return None if found is None else known[found]
        metadata = [f"metadata.{name}"] if dot else []
        built_in = [*self._built_in, *_CONTENTS]
        return nearest_name(text, [*built_in, *axes, *scorers, *axes.values(), *scorers.values(), *metadata])

    def _unknown(self, token: Token, thing: str, nearest: str | None, note: str) -> UsageError:
        way_out = "" if nearest is None else f"did you mean {in_quotes(nearest)}?"
        return self._text.error(token.position, f"unknown {thing} {in_quotes(token.text)}", way_out, note)


def _reader(source: str, name: str) -> Callable[[Selectable], object]:
    if source == "axes":
        return lambda candidate: candidate.axis(name)
    if source == "scores":
        return lambda candidate: candidate.score(name)
    if source in _CONTENTS:
        return lambda candidate: candidate.text(name)
    if source == "metadata":
        path = tuple(name.split("."))
        return lambda candidate: candidate.metadata(path)
    return lambda candidate: candidate.field(name)


def _asking(read: Callable[[Selectable], object], tester: Tester) -> TrialTest:
    def test(candidate: Selectable) -> bool:
        value = read(candidate)
        return not is_missing(value) and tester(value)

    return test
