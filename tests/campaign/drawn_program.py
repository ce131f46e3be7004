"""A program drawn from a seed, with spots at which it can be changed.

A generator writes the text of a task and calls `Draw.spot` wherever a change is possible. The same seed gives the same
text; with `flip`, the spot of that number has its other text. So a program and its changed version come from the same
code, and each spot knows which names a refusal has to mention.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

Names = tuple[tuple[str, ...], ...]
"""For every group, one of its names has to be in the message."""
HARMFUL, NEUTRAL = "harmful", "neutral"
FROM_OUTSIDE = "read at import from"
LETTERS = "bcdfghjkmnpqrstvwxz"
WORDS = ("polite", "rude", "brief", "long", "formal", "plain", "kind", "stern", "exact", "loose", "calm", "loud")


class Spot(NamedTuple):
    """A place where the program can be changed."""

    kind: str
    what: str
    names: Names


@dataclass
class DrawnProgram:
    """One version of a task: its files, and where and how it is run."""

    files: dict[str, str]
    environment: dict[str, str] = field(default_factory=dict)
    entry: dict[str, object] = field(default_factory=dict)
    """What the observer of the task has to load: see `observed_task.py`."""
    spots: list[Spot] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)
    mend: str = ""
    """For a rebuilt program: what the whole change is, where it is no spot (a moved directory, a hash seed)."""


class Draw:
    """Random choices, names that occur nowhere else, and the spots of one program."""

    def __init__(self, seed: object, flip: int | None = None) -> None:
        self.random, self.flip = random.Random(f"{seed}"), flip
        self.spots: list[Spot] = []
        self.shapes: list[str] = []
        self.files: dict[str, str] = {}
        self.environment: dict[str, str] = {}
        self.top: list[str] = []
        """The statements of the module that is being written."""
        self.reads_files = True
        """Whether a text may come from a file or a variable that is read at import."""
        self._path: list[tuple[str, ...]] = []
        self._used: set[str] = set()

    def pick(self, choices):
        return self.random.choice(list(choices))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def name(self, stem: str) -> str:
        """A name that is used for nothing else and that no sentence contains."""
        while (made := f"{stem}_{''.join(self.random.choices(LETTERS, k=4))}") in self._used:
            pass
        self._used.add(made)
        return made

    def words(self) -> tuple[str, str]:
        """Two texts that differ."""
        first, second = self.random.sample(WORDS, 2)
        return f"{first} {self.random.randrange(100)}", f"{second} {self.random.randrange(100)}"

    def spot(self, before: str, after: str, *names: str | tuple[str, ...], what: str, kind: str = HARMFUL) -> str:
        """The text at a place that can be changed; `names` are groups of which each must be mentioned."""
        groups = tuple((group,) if isinstance(group, str) else tuple(group) for group in names) or self.groups()
        self.spots.append(Spot(kind, what, groups))
        return after if self.flip == len(self.spots) - 1 else before

    def calm(self, before: str, after: str, what: str) -> str:
        """A place where a change alters nothing."""
        return self.spot(before, after, what=what, kind=NEUTRAL)

    def text(self, what: str = "text") -> str:
        """A literal text that can be changed."""
        before, after = self.words()
        return self.spot(repr(before), repr(after), what=what)

    def text_at_import(self) -> str:
        """An expression for a text: a literal, or what a file or the environment holds when the module is loaded."""
        if not self.reads_files or self.chance(0.6):
            return self.text()
        before, after = self.words()
        if self.chance(0.25):
            variable = self.name("CAMPAIGN").upper()
            self.environment[variable] = self.spot(before, after, what=f"text {FROM_OUTSIDE} the environment")
            return f"__import__('os').environ['{variable}']"
        name = f"{self.name('leaf')}.txt"
        self.files[f"@/{name}"] = self.spot(before, after, what=f"text {FROM_OUTSIDE} a file")
        return f"__import__('pathlib').Path(__file__).with_name('{name}').read_text()"

    def add(self, *lines: str) -> None:
        """Statements of the module."""
        self.top += lines

    @contextlib.contextmanager
    def within(self, *group: str, is_global: bool = False) -> Iterator[None]:
        """What is drawn inside belongs to a thing of one of these names; one that the module itself knows by its
        name is found by that or by the name of what holds it.
        """
        outer = self._path
        self._path = [(*group, *(outer[0] if outer else ()))] if is_global else [*outer, group]
        try:
            yield
        finally:
            self._path = outer

    def groups(self) -> Names:
        """The outermost thing and the innermost: the object and its attribute."""
        if not self._path:
            return ()
        return (self._path[0],) if len(self._path) == 1 else (self._path[0], self._path[-1])
