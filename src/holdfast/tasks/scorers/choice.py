r"""Which of the lettered choices the answer picks.

In this order: `\boxed{B}`; `<answer>B</answer>`; `{"answer": "B"}`; "Answer: B" or "the answer is (B)", first in the
last line and then anywhere; an answer that is nothing but a letter (`B`, `(B)`, `**B.**`), begins like one of the
options (`B) Paris`), or has a letter alone in its first or last line; the text of one choice; "Option B" or "I choose
B"; one letter in brackets; the words of one choice among others. The first of these that finds anything decides, and
where it finds two different choices ("Answer: B or C") there is no answer.
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

# Bounded, like every repetition here, and possessive, so that no answer makes the search slow.
_MARK = r"[*_`$\s]{0,8}+"
_LETTER = r"[\"\u201c]?[(\[]?(?P<letter>[A-Z])(?![A-Za-z0-9'\u2019])(?=(?P<rest>[^\n]{0,40}))"
_EITHER = rf"(?:(?:either|both)\s)?{_MARK}(?:(?:option|choice)s?\s)?{_MARK}"
_STATED = re.compile(
    rf"\b(?:answers?|(?:correct|right|best|final|my)\s(?:option|choice)s?)\b{_MARK}(?:(?:is|are)\b|[:=])"
    rf"{_MARK}:?{_MARK}{_EITHER}{_LETTER}",
    re.IGNORECASE,
)
_NAMED = re.compile(
    rf"\b(?:option|choice|choose|pick|select|go\swith)s?\b{_MARK}:?{_MARK}{_EITHER}{_LETTER}", re.IGNORECASE
)
_JOINED = r"(?:\s{0,4}(?:[,/&|+]|\b(?:or|and)\b|\b(?:maybe|perhaps|possibly|also|even)\b)){1,4}"
# Behind a letter: another one, directly or, if it is marked as an option, after the text of the first.
_ALSO = re.compile(
    rf"{_MARK}[)\].:]?{_MARK}\(?(?P<by>{_JOINED}){_MARK}(?:(?:option|choice)\s)?{_LETTER}"
    rf"|[)\].:][^\n]{{0,200}}?(?P<marked>\b(?:or|and))\s{{1,4}}[(\[]?(?P<other>[A-Z])[)\].:](?=\s|\Z)",
    re.IGNORECASE,
)
_TAGGED = re.compile(r"<(answer|final_answer|choice|option)>([^<]{0,2000})</\1>", re.IGNORECASE)
_JSON = re.compile(
    r"[\"'](?:(?:final|correct|selected)[_ ]?)?(?:answer|choice|option|letter)s?[\"']\s{0,8}:\s{0,8}"
    r"(?:\"([^\"\n]{0,2000})\"|'([^'\n]{0,2000})'|\[([^\]]{0,2000})\])",
    re.IGNORECASE,
)
_ALONE = re.compile(r"[(\[]?([A-Za-z])[)\].:,]?")
_NEW_CLAUSE = re.compile(r"\s+(?:is|was|isn|wasn|has|does|would|can|could|may|might|must|seems)\b", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s*(?:[,/&|+]|\b(?:or|and)\b)\s*", re.IGNORECASE)
_LISTED = re.compile(r"^[*_`\t ]*[(\[]?([A-Z])[)\].:](?=\s|\Z)", re.MULTILINE)
_BRACKETED = re.compile(r"[(\[]([A-Z])[)\]]")
_ARTICLES = ("A", "I")
_LONGEST_LETTERS = 200
"""More characters than letters that are joined take."""

Finder = Callable[[str, Sequence[str]], Iterable[str]]


class Choice(BuiltIn, frozen=True, kw_only=True):
    """True if the answer picks the choice that the target means.

    By its letter (`B`, `(B)`, `Answer: B`, `Option B`, `<answer>B</answer>`, `{"answer": "B"}`) or by its text. An
    answer that picks several choices (`Answer: B or C`) is wrong.
    """

    kind: ClassVar[str] = "choice"
    revision: ClassVar[int] = 3

    name: str = "choice"

    def judge(self, text: str, sample: Sample) -> Score:
        picked = picked_letters(text, sample.choices or [])
        if len(picked) != 1:
            return Score(False, explanation=_why_none(picked))
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


def _why_none(picked: set[str]) -> str:
    *others, last = sorted(picked) or [""]
    return f"The answer is ambiguous: it picks {', '.join(others)} and {last}." if picked else "It picks no choice."


def _boxed_choice(text: str, choices: Sequence[str]) -> Iterator[str]:
    inner = last_boxed(text)
    if inner is not None:
        plain = re.sub(r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf|sf|it))\{([^{}]*)\}", r"\1", inner)
        yield from _wrapped(plain, choices)


def _tagged(text: str, choices: Sequence[str]) -> list[str]:
    """What stands in the last pair of tags that hold an answer."""
    found = _TAGGED.findall(text)
    return _wrapped(found[-1][1], choices) if found else []


def _json_answer(text: str, choices: Sequence[str]) -> list[str]:
    """What the last JSON key for an answer holds; it is searched for, because JSON of models is often not valid."""
    found = _JSON.findall(text)
    if not found:
        return []
    double, single, listed = found[-1]
    return _wrapped(double or single or re.sub(r"[\"']", "", listed), choices)


def _wrapped(text: str, choices: Sequence[str]) -> list[str]:
    """The choice in a box, between tags or in JSON, where nothing else is expected."""
    finders = (_letter_alone, _whole_text, _listed, _stated, _named_option)
    return next((found for finder in finders if (found := finder(text.strip(), choices))), [])


def _stated_last(text: str, choices: Sequence[str]) -> list[str]:
    return _stated(text.rsplit("\n", 1)[-1], choices)


def _stated(text: str, choices: Sequence[str]) -> list[str]:
    return _letters_in(_STATED, text, choices)


def _named_option(text: str, choices: Sequence[str]) -> list[str]:
    return _letters_in(_NAMED, text, choices)


def _letters_in(pattern: re.Pattern[str], text: str, choices: Sequence[str]) -> list[str]:
    found: list[str] = []
    for match in pattern.finditer(text):
        if not _is_word(match["letter"], match["rest"], choices):
            found += [match["letter"].upper(), *_joined_letters(text, match.end("letter"), choices)]
    return found


def _joined_letters(text: str, start: int, choices: Sequence[str]) -> Iterator[str]:
    """The letters that follow one as alternatives: "B or C", "B, C and D", "B) Paris or C) Lyon"."""
    while match := _ALSO.match(text, start):
        letter = "letter" if match["letter"] else "other"
        if match["letter"] and _is_word(match["letter"], match["rest"], choices, after=match["by"]):
            return
        yield match[letter].upper()
        start = match.end(letter)


def _is_word(letter: str, rest: str, choices: Sequence[str], after: str = "") -> bool:
    """Whether the letter is the word "a" or "I": in lower case before a word, or where a choice begins with it.

    After a letter and a comma ("B, I think") or "and" it is a word too, and any letter may begin another clause there
    ("B, C is wrong").
    """
    before_word = re.match(r"\s+\w", rest) is not None
    if letter.islower():
        return before_word
    begins = any(choice.casefold().startswith(f"{letter.lower()} ") for choice in choices)
    is_after = bool(after) and "or" not in after.lower()
    if is_after and _NEW_CLAUSE.match(rest):
        return True
    return letter in _ARTICLES and before_word and (begins or is_after)


def _letter_alone(text: str, _choices: Sequence[str]) -> list[str]:
    """A letter, or several that are joined ("B or C"), and nothing else."""
    if len(text) > _LONGEST_LETTERS:
        return []
    plain = text.strip(" \t\n*_`$")
    parts = [plain] if _ALONE.fullmatch(plain) else _SEPARATOR.split(plain)
    found = [_ALONE.fullmatch(part.strip(" \t\n*_`$")) for part in parts]
    return [one[1].upper() for one in found if one] if all(found) else []


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
    _json_answer,
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
