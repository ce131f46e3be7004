"""How a row of a dataset becomes a sample.

Every column that is no part of a sample by its name is metadata, under its own name.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.message import EarlierMessage, Message
from holdfast.suggestions import did_you_mean, listing
from holdfast.tasks.choices import checked_choices, prompt_fields, prompt_text
from holdfast.tasks.json_values import MISSING, lookup, none_if_missing
from holdfast.tasks.sample import RESERVED, Sample
from holdfast.tasks.template import Template

LONGEST_ID = 500
INPUT_PARTS = ("input", "id", "choices")
_LIKE_QUESTIONS = frozenset({"question", "prompt", "query", "problem", "instruction", "text"})
_LIKE_ANSWERS = frozenset({"answer", "answers", "expected", "label", "solution", "output", "reference"})

Row = Mapping[str, Any]


class Columns(msgspec.Struct, frozen=True):
    """Where each part of a sample is in a row."""

    later_fields: ClassVar[frozenset[str]] = frozenset({"key_paths"})
    """Fields that are newer than the first digests of code: they count in them only where they are used."""

    named: dict[str, str] = msgspec.field(default_factory=dict)
    """The columns that were named for parts of a sample; every row has to have them."""

    target: Template | None = None
    options: tuple[Template, ...] = ()
    asked: tuple[str, ...] = ()
    """What the prompts name: it is input, also where the target template names it too."""

    stand_in: Template | None = None
    """What the input is where a prompt makes do without the input's column."""

    key_paths: tuple[str, ...] | None = None
    """Where the target was when the run was started, if a rescoring has moved it. Inputs, and so the keys of rows
    without ids, are made without these: another template of the target must not make other samples of the same rows.
    """

    def sample(self, row: Row, place: str) -> Sample:
        """The sample that a row holds."""
        metadata = _row_metadata(row)
        found = Sample(
            self._input(row, place),
            none_if_missing(self._part("target", row, place)),
            self.sample_id(row, place),
            self._choices(row, metadata, place),
            metadata,
            _scoring_arguments(row, place) if "scoring" in row else {},
        )
        target, text = found.target, found.input
        if self.target is not None:
            target = self.target.value(found.fields(), place)
            found = Sample(text, target, found.id, found.choices, metadata, found.scoring)
        if text or self.stand_in is None:
            return found
        text = self.stand_in.render(prompt_fields(found, self.stand_in), place)
        return Sample(text, target, found.id, found.choices, metadata, found.scoring)

    def sample_id(self, row: Row, place: str) -> str | None:
        """The id that the dataset gives, as text, or None."""
        value = none_if_missing(self._part("id", row, place))
        if value is None:
            return None
        if type(value) is not str and type(value) is not int:
            raise ConfigurationError(f"The id of {place} is not text.", hint="An id is a text or an integer.")
        text = str(value)
        if not 1 <= len(text) <= LONGEST_ID:
            raise ConfigurationError(
                f"The id of {place} has {len(text)} characters.", hint=f"Use 1 to {LONGEST_ID} characters."
            )
        return text

    def only_target_paths(self) -> tuple[str, ...]:
        """The paths that are no input: the target's when the run was started that no prompt asks with."""
        paths = self.target_paths() if self.key_paths is None else self.key_paths
        return tuple(path for path in paths if not any(_paths_overlap(path, asked) for asked in self.asked))

    def shown_target_paths(self) -> tuple[str, ...]:
        """Of the paths that are no input, those that are asked with all the same: a choice is made of them."""
        shown = [path for option in self.options for path in option.paths]
        return tuple(path for path in self.only_target_paths() if any(_paths_overlap(path, one) for one in shown))

    def target_paths(self) -> tuple[str, ...]:
        """Where in a row the target is."""
        column = self.column("target")
        if self.target is None:
            return (column,)
        named = [path for path in self.target.paths if path.partition(".")[0] not in INPUT_PARTS]
        return tuple(column if path == "target" else path for path in named)

    def with_keys_of(self, earlier: "Columns") -> "Columns":
        """These columns, where rows without ids have the keys that they have under the earlier ones."""
        paths = earlier.target_paths() if earlier.key_paths is None else earlier.key_paths
        return msgspec.structs.replace(self, key_paths=None if paths == self.target_paths() else paths)

    def likely_input(self, fields: Row) -> str | None:
        """The field that a prompt was probably to name: one called like a question, or the longest text.

        Never one that the target names, or that is called like an answer: that would give the answer away.
        """
        taken = [*self.target_paths(), *map(self.column, ("target", "id", "choices"))]
        taken += [path for option in self.options for path in option.paths]
        roots = {*_LIKE_ANSWERS, *(path.partition(".")[0] for path in taken)}
        texts = {name: len(value) for name, value in fields.items() if isinstance(value, str) and name not in roots}
        return max(texts, key=lambda name: (name in _LIKE_QUESTIONS, texts[name]), default=None)

    def column(self, part: str) -> str:
        """The column of a part of a sample."""
        return self.named.get(part, part)

    def _part(self, part: str, row: Row, place: str) -> Any:
        column = self.named.get(part, part)
        if column in row:
            return row[column]
        value = lookup(row, column) if "." in column else MISSING
        if value is MISSING and part in self.named:
            raise ConfigurationError(
                f"{place} has no field {column!r}, which was named for the {part}; it has {listing(row)}.",
                hint=did_you_mean(column, row),
            )
        return value

    def _input(self, row: Row, place: str) -> str | list[Message]:
        value = self._part("input", row, place)
        if value is MISSING and self.stand_in is not None:
            return ""
        if value is MISSING:
            raise ConfigurationError(
                f"{place} has no field 'input'; it has {listing(row)}.", hint=_name_an_input(self.likely_input(row))
            )
        return value if isinstance(value, str) else _input_messages(value, place)

    def _choices(self, row: Row, metadata: Row, place: str) -> list[str] | None:
        if self.options:
            return checked_choices([option.render(metadata, place) for option in self.options], place)
        value = none_if_missing(self._part("choices", row, place))
        return None if value is None else checked_choices(value, place)


class PromptedColumns(Columns, frozen=True, kw_only=True):
    """Columns for a solver of one's own: the input is a prompt made from the row, whatever the row has as its input."""

    prompt: Template

    def sample(self, row: Row, place: str) -> Sample:
        found = super().sample(row, place)
        if isinstance(found.input, list) and self.prompt.names("input"):
            raise ConfigurationError(
                f"The input of {place} is a list of messages, which the {self.prompt.where} cannot be made from.",
                hint="Leave the prompt out, or give the input as a text.",
            )
        return msgspec.structs.replace(found, input=prompt_text(self.prompt, found, place))


def _name_an_input(field: str | None) -> str:
    if field is None:
        return "Use a prompt that names a field, or rename a column to input."
    return (
        f'Use a prompt that names a field, such as "{{{field}}}" (in Python: solver=generate("{{{field}}}")), or say'
        f" which column is the input: fields: {{input: {field}}} in the dataset."
    )


def _paths_overlap(one: str, other: str) -> bool:
    """Whether two paths name the same field, or one a part of the other."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _row_metadata(row: Row) -> dict[str, Any]:
    own = {name: value for name, value in row.items() if name not in RESERVED}
    if "metadata" not in row:
        return own
    nested = row["metadata"]
    return {**(nested if isinstance(nested, dict) else {"metadata": nested}), **own}


def _input_messages(value: Any, place: str) -> list[Message]:
    try:
        messages = _converted(value)
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            f"The input of {place} is neither a text nor a list of messages: {error}.",
            hint='A message is {"role": "user", "content": "..."}.',
        ) from None
    if not messages:
        raise ConfigurationError(
            f"The input of {place} is an empty list of messages.", hint="Add a message, or remove the row."
        )
    return messages


def _converted(value: Any) -> list[Message]:
    try:
        return msgspec.convert(value, list[Message])
    except msgspec.ValidationError:
        # A role that is not known is refused when a new run is checked; a run that has it can still be read.
        return [*msgspec.convert(value, list[EarlierMessage])]


def _scoring_arguments(row: Row, place: str) -> dict[str, dict[str, Any]]:
    value = row["scoring"]
    if value is None:
        return {}
    try:
        return msgspec.convert(value, dict[str, dict[str, Any]])
    except msgspec.ValidationError:
        raise ConfigurationError(
            f"The field 'scoring' of {place} does not give arguments by the name of a scorer.",
            hint='Write it as {"regex": {"pattern": "..."}}.',
        ) from None
