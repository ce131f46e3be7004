"""Warnings before money is spent: what a new run would do that hardly anybody means.

Each is one sentence about the task, and one with the way out. Nothing is read for them but the first sample: whether
targets are empty is known from their digests, and what samples carry is noticed while they are checked anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.engine.planning.plan import PlannedTask
from holdfast.errors import ConfigurationError
from holdfast.models.errors import excerpt
from holdfast.models.message import ROLES, Message
from holdfast.run.core.slots.slot_names import scorer_of
from holdfast.suggestions import listing
from holdfast.tasks.choices import LETTERS, prompt_fields
from holdfast.tasks.sample import Sample
from holdfast.tasks.scorers.choice import Choice
from holdfast.tasks.scorers.exact import Exact
from holdfast.tasks.scorers.function import FunctionScorer
from holdfast.tasks.scorers.includes import Includes
from holdfast.tasks.scorers.regex import Regex
from holdfast.tasks.solver import Generate
from holdfast.tasks.task import Task
from holdfast.tasks.template import Template

_LONGEST = 1000
_DOUBLED = re.compile(r"(?<!\{)\{\{\s*([^{}\n]{1,200}?)\s*\}\}(?!\})")


class SampleWatch:
    """What the samples of a task carry that nothing in the task takes; it sees them while they are checked."""

    def __init__(self, task: Task) -> None:
        self._name, self._scorers = task.name, list(dict.fromkeys(scorer_of(one.name) for one in task.scorers))
        self._unused: dict[str, tuple[int, str]] = {}

    def see(self, sample: Sample, place: str) -> None:
        """Looks at one sample.

        Raises:
            ConfigurationError: it has a message whose role is not known; only a run that has it already may.
        """
        if isinstance(sample.input, list):
            _check_roles(sample.input, place)
        for name in sample.scoring:
            if name not in self._scorers:
                count, first = self._unused.get(name, (0, place))
                self._unused[name] = (count + 1, first)

    def warnings(self) -> Iterator[str]:
        for name, (count, first) in sorted(self._unused.items()):
            carried = f"{count} samples carry" if count > 1 else "One sample carries"
            yield (
                f"{carried} arguments for the scorer {name!r}, which the task {self._name!r} does not have; they have"
                f" no effect (first: {first}). Name one of its scorers: {listing(self._scorers)}."
            )


def _check_roles(messages: list[Message], place: str) -> None:
    for message in messages:
        if message.role not in ROLES:
            raise ConfigurationError(
                f"The input of {place} has a message with the role {message.role[:40]!r}.",
                hint=f"Use one of: {', '.join(ROLES)}.",
            )


def task_warnings(planned: PlannedTask, watch: SampleWatch) -> list[str]:
    """What there is to warn of before the first run of a task."""
    task, first = planned.task, planned.dataset[0]
    found = [*_no_scorer(task), *_target_warnings(planned, first), *_repeated_rows(planned), *watch.warnings()]
    if isinstance(task.solver, Generate):
        found += _unlettered_target(task, first)
        for title, template in _prompts(task, task.solver):
            found += _prompt_warnings(title, template, planned, first)
    # Names of fields and files are foreign text.
    return [excerpt(text, _LONGEST) for text in found]


def _no_scorer(task: Task) -> Iterator[str]:
    if not task.scorers:
        yield f"The task {task.name!r} has no scorer: its answers are recorded, and not scored. Give it scorers."


def _repeated_rows(planned: PlannedTask) -> Iterator[str]:
    """Equal rows are separate samples, since they may be meant; to an interval they look like more questions."""
    dataset, pairs = planned.dataset, planned.dataset.repeated()
    if not pairs:
        return
    earlier, later = sorted(dataset.row_number(position) for position in pairs[0])
    asks, each = ("asks", "it counts") if len(pairs) == 1 else ("ask", "each counts")
    yield (
        f"{len(pairs)} of {len(dataset)} samples of {_of(planned.task)} {asks} the same as another one (first:"
        f" {dataset.rows.source} rows {earlier} and {later}); {each} as a sample of its own, so intervals are too"
        " narrow. Remove such rows; to ask every question several times, use epochs."
    )


def _prompts(task: Task, solver: Generate) -> Iterator[tuple[str, Template]]:
    for variant, template in solver.prompts.items():
        yield f"The prompt {variant!r} of {_of(task)}" if variant else f"The prompt of {_of(task)}", template


def _of(task: Task) -> str:
    return f"the task {task.name!r}"


def _prompt_warnings(title: str, template: Template, planned: PlannedTask, first: Sample) -> Iterator[str]:
    if doubled := _doubled_field(template, first):
        yield f"{title} {_literal(doubled)}"
    elif len(planned.dataset) > 1 and _asks_the_same(template, planned.task, first):
        yield (
            f"{title} uses no field of the dataset, so all {len(planned.dataset)} samples are asked the same."
            f" Name a field in it{_likely_field(template, planned.task, first)}."
        )
    if _lists_choices_twice(template, planned.task, first):
        yield (
            f"{title} already lists the choices, and the list is added to it again."
            " Write {choices} where the list belongs, or leave the choices of the task out."
        )


def _doubled_field(template: Template, first: Sample) -> str:
    """The first field in doubled braces, which mean literal ones; empty if absent."""
    fields = first.fields()
    return next((found[1] for found in _DOUBLED.finditer(template.text) if found[1] in fields), "")


def _literal(name: str) -> str:
    # Doubled braces in an f-string are single ones in its text.
    return f"has {{{{{name}}}}}, which is sent as the text {{{name}}}. {_write_field(name)}"


def _asks_the_same(template: Template, task: Task, first: Sample) -> bool:
    """Whether nothing that is sent depends on the sample; its choices are added to a prompt."""
    solver = task.solver
    system = isinstance(solver, Generate) and solver.system is not None and bool(solver.system.paths)
    return not (template.paths or system or first.choices)


def _likely_field(template: Template, task: Task, first: Sample) -> str:
    """The field that was probably meant, as an example: the one that the prompt is called, or a text of the row."""
    if (found := template.text.strip()) in first.fields() and found not in task.columns.target_paths():
        return f", such as {{{found}}}"
    field = task.columns.likely_input(first.metadata) or ("input" if first.input else None)
    return "" if field is None else f", such as {{{field}}}"


def _write_field(name: str) -> str:
    return f"For the value of the field, write {{{name}}}."


def _lists_choices_twice(template: Template, task: Task, first: Sample) -> bool:
    """Whether a prompt to which the list of choices is added has each of them in it, by its field or with a letter."""
    if not first.choices or template.names("choices") or isinstance(first.input, list):
        return False
    fields = {path for option in task.columns.options for path in option.paths}
    if fields and fields.issubset(template.paths):
        return True
    text = template.render(prompt_fields(first, template))
    return all(_is_listed(letter, choice, text) for letter, choice in zip(LETTERS, first.choices, strict=False))


def _is_listed(letter: str, choice: str, text: str) -> bool:
    marks = f"{letter}|{letter.lower()}|{LETTERS.index(letter) + 1}"
    return re.search(rf"(?<!\w)(?:{marks})[).:\]]\s*{re.escape(choice.strip())}", text) is not None


def _unlettered_target(task: Task, first: Sample) -> Iterator[str]:
    """A list of lettered choices is answered by letter, which a comparison with the text of a choice takes as wrong."""
    comparing = [scorer.name for scorer in task.scorers if isinstance(scorer, Exact | Includes | Regex)]
    has_choice = any(isinstance(scorer, Choice) for scorer in task.scorers)
    if not first.choices or not comparing or has_choice or first.target in (None, *LETTERS[: len(first.choices)]):
        return
    yield (
        f"The choices of {_of(task)} are asked by letter, and its target is not a letter (first: {first.target!r}): the"
        f" scorer {comparing[0]} counts an answer such as B as wrong. Use the scorer choice, which accepts the letter"
        " and the text."
    )


def _target_warnings(planned: PlannedTask, first: Sample) -> Iterator[str]:
    task, template = planned.task, planned.task.columns.target
    if template is not None and (doubled := _doubled_field(template, first)):
        yield f"The target of {_of(task)} {_literal(doubled)}"
    elif template is not None and template.text.strip() in first.fields():
        name = template.text.strip()
        yield f"The target of {_of(task)} is the text {name!r} for every sample. {_write_field(name)}"
    is_compared = any(map(_compares_target, task.scorers))
    if template is not None and not template.text.strip():
        if is_compared:
            yield (
                f"The target of {_of(task)} is an empty text for every sample; all answers are compared with it."
                " Name the field with the expected answer, such as {answer}."
            )
        return
    empty = planned.dataset.empty_targets() if is_compared else []
    if empty:
        count, place = len(empty), planned.dataset.place(empty[0])
        yield (
            f"The target is empty in {count} of {len(planned.dataset)} samples of {_of(task)} (first: {place}); their"
            " answers are compared with an empty text. Fill it in, or leave such rows out with a filter."
        )


def _compares_target(scorer: object) -> bool:
    return (
        isinstance(scorer, Exact | Includes)
        or (isinstance(scorer, Regex) and scorer.compare)
        or (isinstance(scorer, FunctionScorer) and scorer.needs_target)
    )
