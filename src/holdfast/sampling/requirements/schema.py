"""`json_schema`: the answer is JSON that fits a schema.

The text is decoded strictly: NaN, trailing commas and comments are not JSON. A schema refers to nothing outside
itself: neither files nor the network are read.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

from holdfast.digests import canonical_json
from holdfast.errors import ConfigurationError
from holdfast.models.errors import excerpt
from holdfast.sampling.requirements.built_in import BuiltInRequirement, Naming, quoted
from holdfast.sampling.requirements.requirement import Draft
from holdfast.sampling.requirements.verdict import Verdict
from holdfast.tasks.judges.fenced_block import fenced_block
from holdfast.tasks.judges.strict_json import NotJson, decode_strictly

LONGEST_JSON = 5_000_000
"""Longer answers are not decoded: they fail."""

_DESCRIBED_CHARACTERS = 2000
_MESSAGE_CHARACTERS = 300
_PATTERN_GAVE_UP = "Error executing regex"


class JsonSchemaRequirement(BuiltInRequirement, frozen=True, kw_only=True):
    """Met if the answer, or the one fenced block in it, is JSON that fits the schema."""

    kind: ClassVar[str] = "json_schema"

    schema: dict[str, Any] | bool
    """The JSON Schema that the answer must fit. Example: `{type: object, required: [name]}`"""

    def prepare(self) -> None:
        self.__dict__["validate"] = _validator(self.schema).validate

    def check(self, draft: Draft) -> Verdict:
        text = draft.text
        if len(text) > LONGEST_JSON:
            return self.failed(f"The answer has {len(text):,} characters; at most {LONGEST_JSON:,} are read as JSON.")
        block = fenced_block(text, {"json"})
        try:
            value = decode_strictly(text if block is None else block)
        except NotJson as error:
            return self.failed(f"The answer is not valid JSON: {error}.")
        return self._fitted(value)

    def derived_description(self) -> str:
        text = canonical_json(self.schema).decode()
        if len(text) > _DESCRIBED_CHARACTERS:
            return "The answer must be JSON that fits the schema."
        return f"The answer must be JSON that fits this schema: {text}"

    def _fitted(self, value: Any) -> Verdict:
        try:
            # Not iter_errors, which finds all of them before it gives the first.
            self.__dict__["validate"](value)
        except _schema_library().ValidationError as error:
            said = excerpt(error.message, _MESSAGE_CHARACTERS)
            if said.startswith(_PATTERN_GAVE_UP):
                return self.undecided(f"A pattern of the schema takes too long on the answer: {said}.", "task")
            return self.failed(f"The JSON does not fit the schema{_path_text(error.instance_path)}: {said}.")
        except (ValueError, RecursionError):
            # Of what JSON can hold, the library refuses nothing but depth.
            return self.failed("The JSON cannot be checked: it is nested too deeply.")
        return self.passed()


def json_schema(schema: Mapping[str, Any] | bool, **naming: Unpack[Naming]) -> JsonSchemaRequirement:  # noqa: FBT001 - a schema
    """The answer is JSON that fits the schema, as it is or in one fenced block.

    Raises:
        ConfigurationError: it is not a schema, or the package that checks schemas is not installed.
    """
    given = dict(schema) if isinstance(schema, Mapping) else schema
    return JsonSchemaRequirement.build({"schema": given, **naming}, "json_schema()")


def _path_text(path: list[str | int]) -> str:
    """Where in the JSON something is wrong, as the middle of a sentence."""
    if not path:
        return ""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return f" at {quoted(steps.removeprefix('.'))}"


def _validator(schema: dict[str, Any] | bool) -> Any:  # noqa: FBT001 - a schema
    library = _schema_library()
    try:
        return library.validator_for(schema, retriever=_refuse_retrieval)
    except library.ValidationError as error:
        said = excerpt(error.message, _MESSAGE_CHARACTERS)
        raise ConfigurationError(f"The schema{_path_text(error.instance_path)} is not a JSON schema: {said}.") from None
    except (ValueError, RecursionError) as error:
        said = excerpt(str(error), _MESSAGE_CHARACTERS)
        raise ConfigurationError(f"The schema is not a JSON schema: {said}.") from None


def _refuse_retrieval(address: str) -> Any:
    raise ValueError(f"{address} is outside the schema; put what it refers to under $defs")


def _schema_library() -> Any:
    try:
        return importlib.import_module("jsonschema_rs")
    except ImportError:
        raise ConfigurationError(
            "The requirement json_schema needs the package jsonschema-rs, which is not installed.",
            hint="Install it: pip install jsonschema-rs",
        ) from None
