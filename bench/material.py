"""What is written in a benchmark: records such as a run of an evaluation makes, the same for every run of a benchmark.

The prose is made of invented words, few of them frequent and many rare as in a real language, so that it compresses
about as well as one. All of it follows from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from hashlib import blake2b
from itertools import accumulate

from holdfast.models.message import Usage
from holdfast.run.core.records import AnswerRecord, CallRecord, Record, ScoreRecord, Status, StepRecord, TrialRecord

SEED = 20_261
_LETTERS = ("b", "c", "d", "f", "g", "gr", "h", "l", "m", "n", "p", "pr", "r", "s", "st", "t", "th", "tr", "v", "w")
_VOWELS = ("a", "e", "i", "o", "u", "ea", "ou", "io")
_ENDS = ("", "n", "r", "s", "t", "l", "ng", "st", "d")
_VOCABULARY = 12_000
_WORDS = 400_000


class Prose:
    """A long text; a passage is any piece of it."""

    def __init__(self, seed: int = SEED) -> None:
        self._random = random.Random(seed)
        words = list(dict.fromkeys(self._word() for _ in range(_VOCABULARY)))
        weights = list(accumulate(1 / (rank + 2.7) for rank in range(len(words))))
        chosen = self._random.choices(words, cum_weights=weights, k=_WORDS)
        self._text = " ".join(self._sentences(chosen))

    def _word(self) -> str:
        choice = self._random.choice
        syllables = self._random.choices((1, 2, 3, 4), (30, 40, 20, 10))[0]
        return "".join(choice(_LETTERS) + choice(_VOWELS) + choice(_ENDS) for _ in range(syllables))

    def _sentences(self, words: list[str]) -> Iterator[str]:
        place = 0
        while place < len(words):
            length = self._random.randint(5, 24)
            sentence = " ".join(words[place : place + length])
            yield sentence.capitalize() + self._random.choice((".", ".", ".", "?", ".\n", ";"))
            place += length

    def passage(self, shortest: int, longest: int) -> str:
        """A piece of the text, between `shortest` and `longest` characters."""
        length = self._random.randint(shortest, longest)
        begin = self._random.randrange(len(self._text) - length)
        return self._text[begin : begin + length]


def trial_key(number: int) -> str:
    return blake2b(b"%d" % number, digest_size=16).hexdigest()


def step_record(prose: Prose, key: str, shortest: int, longest: int) -> StepRecord:
    """A model call with its reply; the texts together have between `shortest` and `longest` characters."""
    text = prose.passage(shortest, longest)
    asked = len(text) // 4
    return StepRecord(
        trial=key,
        attempt=1,
        step=f"solve/generate/{blake2b(text[:asked].encode(), digest_size=8).hexdigest()}/1",
        name="generate",
        request=[{"role": "user", "content": text[:asked]}],
        result={"text": text[asked:], "finish": "stop"},
        model="small",
        usage=Usage(input_tokens=asked // 4, output_tokens=(len(text) - asked) // 4),
        tries=1,
        at=1_700_000_000.25,
        seconds=1.125,
    )


def trial_records(prose: Prose, number: int) -> tuple[CallRecord, StepRecord, AnswerRecord, ScoreRecord, TrialRecord]:
    """Everything that one finished trial of a short question leaves in the journal."""
    key = trial_key(number)
    step = step_record(prose, key, 160, 400)
    answer = prose.passage(5, 30)
    trial = TrialRecord(
        trial=key,
        attempt=1,
        status=Status.VALID,
        task="capitals",
        model="small",
        sample=f"sample-{number}",
        digest=key,
        scores={"exact": float(number % 3 == 0)},
        usage=step.usage,
        calls=1,
        tries=1,
        at=1_700_000_000.5,
        seconds=1.25,
    )
    return (
        CallRecord(trial=key, attempt=1, step=step.step, model="small"),
        step,
        AnswerRecord(trial=key, attempt=1, text=answer),
        ScoreRecord(trial=key, attempt=1, scorer="exact", value=float(number % 3 == 0), answer=answer),
        trial,
    )


def transcript_records(prose: Prose, number: int) -> list[Record]:
    """What one finished trial of a longer conversation leaves in the journal."""
    call, _, *ends = trial_records(prose, number)
    steps = [step_record(prose, call.trial, 2_000, 20_000) for _ in range(3)]
    return [record for step in steps for record in (call, step)] + ends


def step_records(count: int, shortest: int, longest: int) -> list[Record]:
    prose = Prose()
    return [step_record(prose, trial_key(number), shortest, longest) for number in range(count)]
