"""The JSON Schema (draft 2020-12) of an eval file: what editors and other programs check a file with.

It accepts what loading accepts, and rejects what loading rejects by the structure of a file alone: unknown keys, wrong
types, values out of range, missing keys, and keys that exclude one another. It cannot tell whether names that refer to
one another exist, whether a text is a valid regular expression, or whether a value is a key that must not be there.
"""

from __future__ import annotations

import msgspec

from holdfast.reference.argument_schema import argument_definitions, requirement_schema, scorer_schema
from holdfast.reference.block_schema import BlockSchemas, JsonSchema, alternatives, nullable
from holdfast.reference.combination_rules import (
    EMPTY,
    add_agent_rules,
    add_axis_value_rules,
    add_workspace_rules,
    given,
    task_combinations,
)
from holdfast.reference.provider_options import OPTIONS, SCRIPT_PARTS
from holdfast.sampling.requirements.registry import BUILT_IN as REQUIREMENTS
from holdfast.spec.grid_problems import RESERVED
from holdfast.spec.schema.eval import EvalSpec
from holdfast.spec.schema.sampling import EXTRA_FIELDS, LEAST_ESCALATING_TURNS, REQUIRED_FIELDS, SELECTIONS
from holdfast.spec.schema.task import DECLARATIVE_FIELDS
from holdfast.tasks.judges.other_run import OtherRun
from holdfast.tasks.judges.rubric import Criterion
from holdfast.tasks.scorers.registry import BUILT_IN as SCORERS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT: JsonSchema = {"type": "string", "minLength": 1}
_NULL: JsonSchema = {"type": "null"}
_UNQUOTED_TEMPLATE: JsonSchema = {"minProperties": 1, "maxProperties": 1, "additionalProperties": _NULL}
"""What YAML makes of `{field}` without quotes: a map in which `field` is null."""


def eval_schema() -> JsonSchema:
    """The whole schema, as plain data."""
    blocks = BlockSchemas()
    top = blocks.reference(EvalSpec)
    definitions = blocks.definitions
    definitions |= argument_definitions(
        [*SCORERS.values(), Criterion, OtherRun, *REQUIREMENTS.values(), *set(OPTIONS.values()), *SCRIPT_PARTS.values()]
    )
    definitions |= {"Scorer": scorer_schema(), "Requirement": requirement_schema()}
    _add_eval_rules(definitions["EvalSpec"])
    _add_model_rules(definitions["ModelSpec"])
    _add_task_rules(definitions["TaskSpec"])
    _add_sampling_rules(definitions["SamplingSpec"])
    add_axis_value_rules(definitions["AxisValue"])
    add_agent_rules(definitions["AgentSpec"])
    add_workspace_rules(definitions["WorkspaceSpec"])
    return {"$schema": DIALECT, "title": "Eval file of Holdfast", **top, "$defs": dict(sorted(definitions.items()))}


def schema_text() -> str:
    """The schema as a file has it."""
    return msgspec.json.format(msgspec.json.encode(eval_schema()), indent=2).decode() + "\n"


def _add_eval_rules(definition: JsonSchema) -> None:
    """An eval has a task and a model; a deterministic one decides about seeds and selections itself."""
    properties = definition["properties"]
    definition["required"] = ["models", "tasks"]
    for name in definition["required"]:
        properties[name] |= {"type": "object", "minProperties": 1}
    # A scripted model needs a script, which its short form does not have.
    properties["models"]["additionalProperties"]["anyOf"][0]["not"] = {"pattern": "^scripted/(?!echo$)"}
    definition["if"] = given(deterministic={"const": True})
    definition["then"] = {
        "properties": {
            "models": _in_each(generation={"properties": {"seed": _NULL}}),
            "tasks": _in_each(sampling={"properties": {"selection": {"enum": ["deterministic", None]}}}),
        }
    }


def _add_model_rules(definition: JsonSchema) -> None:
    """A model says who serves it and what it is called there, or has a base; its args are its provider's."""
    definition["anyOf"] = [
        given(base={"type": "string"}),
        given(provider=_TEXT, model=_TEXT),
        {**given(model={"pattern": r"^[^/]+/[\s\S]"}), "not": given(provider=_TEXT)},
    ]
    definition["allOf"] = [
        {
            "if": _served_by(name),
            "then": {"properties": {"args": alternatives([{"$ref": f"#/$defs/{kind.__name__}"}, _NULL])}},
        }
        for name, kind in OPTIONS.items()
    ]
    definition["allOf"].append({"if": {**_served_by("scripted"), "not": given(base=_TEXT)}, "then": _with_replies()})


def _served_by(provider: str) -> JsonSchema:
    """Whether a model names this provider, as such or before its name."""
    in_name = {**given(model={"pattern": f"^{provider}/"}), "not": given(provider=_TEXT)}
    return alternatives([given(provider={"const": provider}), in_name])


def _with_replies() -> JsonSchema:
    """A scripted model has something to say, unless it echoes."""
    return alternatives(
        [
            given(model={"enum": ["echo", "scripted/echo"]}),
            *(
                given(args={"type": "object", **given(**{part: rule})})
                for part, rule in (
                    ("replies", {"minProperties": 1}),
                    ("rules", {"minItems": 1}),
                    ("turns", {"minItems": 1}),
                    ("default", {"not": _NULL}),
                )
            ),
        ]
    )


def _add_task_rules(definition: JsonSchema) -> None:
    """A task is declarative, with a dataset and scorers, or it uses a Python task, which brings its own."""
    properties = definition["properties"]
    properties["scorers"] = _listed(properties["scorers"], "Scorer")
    _form(properties["models"], "array").update(minItems=1, uniqueItems=True)
    _form(properties["prompt"], "object").update({"propertyNames": {"minLength": 1}, "not": _UNQUOTED_TEMPLATE})
    _add_axis_rules(properties)
    definition["if"] = given(use={"type": "string"})
    definition["then"] = {"properties": dict.fromkeys(("dataset", *DECLARATIVE_FIELDS), EMPTY)}
    scorers = {"type": ["string", "array"], "minItems": 1}
    definition["else"] = given(dataset={"type": "string"}, scorers=scorers)
    definition["else"]["properties"]["args"] = EMPTY
    definition["allOf"] = task_combinations()


def _add_axis_rules(properties: JsonSchema) -> None:
    """An axis has values, each once, and a name that trials do not have already; a value may say nothing of itself."""
    axis = properties["axes"]["additionalProperties"]
    _form(axis, "array").update(minItems=1, uniqueItems=True)
    values = _form(axis, "object")
    values |= {"minProperties": 1, "additionalProperties": nullable(values["additionalProperties"])}
    properties["axes"]["propertyNames"] |= {"not": {"enum": list(RESERVED)}}
    for name in ("include", "exclude"):
        properties[name]["items"]["minProperties"] = 1


def _add_sampling_rules(definition: JsonSchema) -> None:
    """A strategy has a use for some fields only, and needs some."""
    properties = definition["properties"]
    properties["requirements"] = _listed(properties["requirements"], "Requirement")
    properties["scorer"] = {**_words(properties["scorer"]), **nullable({"$ref": "#/$defs/Requirement"})}
    _form(properties["escalate_to"], "array")["uniqueItems"] = True
    strategies = properties["strategy"]["enum"]
    definition["allOf"] = [
        {"if": given(strategy={"const": strategy}), "then": _strategy_rules(strategy)} for strategy in strategies
    ]


def _strategy_rules(strategy: str) -> JsonSchema:
    unused = [name for owner, names in EXTRA_FIELDS.items() if owner != strategy for name in names]
    rules: JsonSchema = {"properties": dict.fromkeys(unused, _NULL)}
    if strategy in REQUIRED_FIELDS:
        name = REQUIRED_FIELDS[strategy]
        rules["required"] = [name]
        rules["properties"][name] = {"not": EMPTY}
    if strategy in SELECTIONS:
        rules["properties"]["selection"] = {"enum": [*SELECTIONS[strategy], None]}
    if strategy == "escalate":
        rules["required"].append("loop_budget")
        rules["properties"]["loop_budget"] = {"type": "integer", "minimum": LEAST_ESCALATING_TURNS}
    return rules


def _listed(field: JsonSchema, name: str) -> JsonSchema:
    """A list of named things, of which one may be given alone if it is text."""
    entry = {"$ref": f"#/$defs/{name}"}
    alone = {"type": "string", **entry}
    return {**_words(field), **nullable(alternatives([alone, {"type": "array", "items": entry}]))}


def _form(schema: JsonSchema, kind: str) -> JsonSchema:
    """The form of a field that has this type."""
    found: JsonSchema = next(form for form in schema["anyOf"] if form.get("type") == kind)
    return found


def _in_each(**properties: JsonSchema) -> JsonSchema:
    return {"additionalProperties": {"properties": properties}}


def _words(schema: JsonSchema) -> JsonSchema:
    return {name: schema[name] for name in ("description", "default", "examples") if name in schema}
