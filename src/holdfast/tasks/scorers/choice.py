r"""Which of the lettered choices the answer picks.

In this order: `\boxed{B}`; `<answer>B</answer>`; "Answer: B" or "the answer is (B)", first in the last line and then
anywhere; an answer that is nothing but a letter (`B`, `(B)`, `**B.**`), begins like one of the options (`B) Paris`), or
has a letter alone in its first or last line; the text of one choice; "Option B" or "I choose B"; one letter in
brackets; the words of one choice among others. The first of these that finds anything decides, and where it finds two
different choices there is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

from holdfast.errors import ConfigurationError
from holdfast.tasks.choices import LETTERS, target_index
from holdfast.tasks.sample import Sample
from holdfast.tasks.score import Score
from holdfast.tasks.scorers.base import BuiltIn
from holdfast.tasks.scorers.comparable_text import folded_text, target_texts
from holdfast.tasks.scorers.number_parser import last_boxed

# Bounded, like every repetition here, so that no answer makes the search slow.
_MARK = r"[*_`$\s]{0,8}"
_LETTER = r"[(\[]?(?P<letter>[A-Z])(?![A-Za-z0-9'\u2019])(?=(?P<rest>[^\n]{0,40}))"
_STATED = re.compile(
    rf"\b(?:answer|(?:correct|right|best|final|my)\s(?:option|choice))\b{_MARK}(?:is\b|[:=]){_MARK}:?{_MARK}"
    rf"(?:(?:option|choice)\s)?{_MARK}{_LETTER}",
    re.IGNORECASE,
)
_NAMED = re.compile(rf"\b(?:option|choice|choose|pick|select|go\swith)\b{_MARK}:?{_MARK}{_LETTER}", re.IGNORECASE)
_TAGGED = re.compile(r"<(answer|final_answer|choice|option)>([^<]{0,2000})</\1>", re.IGNORECASE)
_ALONE = re.compile(r"[(\[]?([A-Za-z])[)\].:,]?")
_LISTED = re.compile(r"^[*_`\t ]*[(\[]?([A-Z])[)\].:](?=\s|\Z)", re.MULTILINE)
_BRACKETED = re.compile(r"[(\[]([A-Z])[)\]]")
_ARTICLES = ("A", "I")

Finder = Callable[[str, Sequence[str]], Iterable[str]]


class Choice(BuiltIn, frozen=True, kw_only=True):
    """True if the answer picks the choice that the target means.

    By its letter (`B`, `(B)`, `Answer: B`, `Option B`, `<answer>B</answer>`) or by its text. An answer that picks
    several choices is wrong.
    """

    kind: ClassVar[str] = "choice"
    revision: ClassVar[int] = 2

    name: str = "choice"

    def judge(self, text: str, sample: Sample) -> Score:
        picked = picked_letters(text, sample.choices or [])
        if len(picked) != 1:
            reason = f"It picks {', '.join(sorted(picked))} at once." if picked else "It picks no choice."
            return Score(False, explanation=reason)
        (letter,) = picked
        return Score(letter == LETTERS[target_index(sample)], answer=letter)

    def check_target(self, sample: Sample, place: str) -> None:
        if not sample.choices:
            raise ConfigurationError(
                f"The scorer {self.name!r} needs choices, and {place} has none.",
                hint="Give the task choices, or the dataset a field 'choices'.",
            )
        target_texts(sample, self.name, place)
        target_index(sample, place)


def choice(*, name: str = "choice") -> Choice:
    """Compare the picked letter with the target."""
    return Choice.build({"name": name}, "choice()")


def picked_letters(text: str, choices: Sequence[str]) -> set[str]:
    """The letters that the answer picks: one, several where it is ambiguous, or none."""
    valid = LETTERS[: len(choices)]
    for finder in _FINDERS:
        found = {letter for letter in finder(text.strip(), choices) if letter in valid}
        if found:
            return found
    return set()


def _boxed_choice(text: str, choices: Sequence[str]) -> Iterator[str]:
    inner = last_boxed(text)
    if inner is not None:
        plain = re.sub(r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf|sf|it))\{([^{}]*)\}", r"\1", inner)
        yield from _wrapped(plain, choices)


def _tagged(text: str, choices: Sequence[str]) -> list[str]:
    """What stands in the last pair of tags that hold an answer."""
    found = _TAGGED.findall(text)
    return _wrapped(found[-1][1], choices) if found else []


def _wrapped(text: str, choices: Sequence[str]) -> list[str]:
    """The choice in a box or between tags, where nothing else is expected."""
    finders = (_letter_alone, _whole_text, _listed, _stated, _named_option)
    return next((found for finder in finders if (found := finder(text.strip(), choices))), [])


def _stated_last(text: str, choices: Sequence[str]) -> list[str]:
    return _stated(text.rsplit("\n", 1)[-1], choices)


def _stated(text: str, choices: Sequence[str]) -> list[str]:
    return _letters_in(_STATED, text, choices)


def _named_option(text: str, choices: Sequence[str]) -> list[str]:
    return _letters_in(_NAMED, text, choices)


def _letters_in(pattern: re.Pattern[str], text: str, choices: Sequence[str]) -> list[str]:
    return [
        found["letter"].upper()
        for found in pattern.finditer(text)
        if not _is_word(found["letter"], found["rest"], choices)
    ]


def _is_word(letter: str, rest: str, choices: Sequence[str]) -> bool:
    """Whether the letter is the word "a" or "I": in lower case before a word, or where a choice begins with it."""
    before_word = re.match(r"\s+\w", rest) is not None
    if letter.islower():
        return before_word
    begins = any(choice.casefold().startswith(f"{letter.lower()} ") for choice in choices)
    return letter in _ARTICLES and before_word and begins


def _letter_alone(text: str, _choices: Sequence[str]) -> list[str]:
    found = _ALONE.fullmatch(text.strip(" \t\n*_`$"))
    return [found[1].upper()] if found else []


def _letter_line(text: str, choices: Sequence[str]) -> list[str]:
    """A letter alone in the first or in the last line of several."""
    first, *others = text.split("\n")
    return [*_letter_alone(first, choices), *_letter_alone(others[-1], choices)] if others else []


def _listed(text: str, _choices: Sequence[str]) -> list[str]:
    """Lines that begin like an option; letters in brackets elsewhere make them ambiguous."""
    found: list[str] = _LISTED.findall(text)
    return found + _BRACKETED.findall(text) if found else []


def _bracketed(text: str, _choices: Sequence[str]) -> list[str]:
    return _BRACKETED.findall(text)


def _whole_text(text: str, choices: Sequence[str]) -> list[str]:
    answer = _comparable(text)
    verbatim = [letter for letter, choice in zip(LETTERS, choices, strict=False) if choice.strip() == text.strip()]
    return verbatim or [
        letter for letter, choice in zip(LETTERS, choices, strict=False) if answer and _comparable(choice) == answer
    ]


def _contained_text(text: str, choices: Sequence[str]) -> list[str]:
    """The choices whose words are in the answer, apart from those that are only part of a longer one."""
    words = f" {_comparable(text)} "
    shown = {letter: _comparable(choice) for letter, choice in zip(LETTERS, choices, strict=False)}
    for plain in sorted(filter(None, shown.values()), key=len, reverse=True):
        if f" {plain} " in words:
            words = words.replace(f" {plain} ", f" \0{plain}\0 ")
    return [letter for letter, plain in shown.items() if plain and f" \0{plain}\0 " in words]


def _comparable(text: str) -> str:
    return folded_text(text, ignore_case=True, ignore_punctuation=True)


_FINDERS: tuple[Finder, ...] = (
    _boxed_choice,
    _tagged,
    _stated_last,
    _stated,
    _letter_alone,
    _listed,
    _letter_line,
    _whole_text,
    _named_option,
    _bracketed,
    _contained_text,
)
