"""Keys of an eval file that exclude or need one another, as rules of JSON Schema.

They say what resolving says (spec/resolved_eval.py, spec/grid_problems.py), as far as one block and what is in it show
it. What follows from other blocks, such as two axes that both give a prompt, no rule here can tell.
"""

from __future__ import annotations

from holdfast.reference.block_schema import JsonSchema, alternatives, nothing_in
from holdfast.spec.resolved_eval import ASKED_BY_PROMPT, UNSEEN_BY_AGENTS
from holdfast.spec.schema.workspace import WorkspaceSpec

_NULL: JsonSchema = {"type": "null"}
_TEXT: JsonSchema = {"type": "string", "minLength": 1}
EMPTY: JsonSchema = {"enum": [None, "", [], {}]}
_FILLED: JsonSchema = {"not": EMPTY}
_SEVERAL: JsonSchema = {"type": ["array", "object"]}
_REFERENCE: JsonSchema = {"type": "string", "pattern": r"^[\s\S]+:[^:]+$"}
_OUTSIDE = r"^/|(^|/)\.\.(/|$)|\u0000|^\.?(/+\.?)*$"
"""Paths that do not lead into a workspace: absolute ones, those with `..`, and those that lead nowhere."""


def given(**properties: JsonSchema) -> JsonSchema:
    """The condition that these keys are given and have such values."""
    return {"required": list(properties), "properties": properties}


def task_combinations() -> list[JsonSchema]:
    """The rules of a task; one that uses a Python task has few of these keys at all."""
    return [
        _excluding("agent", {"type": "object"}, UNSEEN_BY_AGENTS),
        _excluding("solver", _TEXT, (*ASKED_BY_PROMPT, "tools")),
        _excluding("tools", _FILLED, ("sampling",)),
        {
            "if": given(solver=_TEXT),
            "then": {"properties": {"solver": _REFERENCE, "prompt": {"type": ["string", "null"]}}},
        },
        {"properties": {"tools": alternatives([_REFERENCE, {"type": "array", "items": _REFERENCE}, _NULL])}},
        {"if": {"not": given(agent={"type": "object"})}, "then": {"properties": {"workspace": _no_workspace()}}},
        *_grid_combinations(),
    ]


def _grid_combinations() -> list[JsonSchema]:
    """What the values of axes may have depends on the task; combinations of values are selected where there are any."""
    python, several = given(use=_TEXT), given(prompt=_SEVERAL)
    coded = alternatives([python, given(solver=_TEXT)])
    has_axes = alternatives([python, given(axes={"type": "object", "minProperties": 1})])
    return [
        {"if": {"not": coded}, "then": _in_each_value(args=EMPTY)},
        {"if": several, "then": _in_each_value(prompt=_NULL)},
        {"if": {"not": has_axes}, "then": {"properties": {"include": EMPTY, "exclude": EMPTY}}},
    ]


def add_axis_value_rules(definition: JsonSchema) -> None:
    """A scorer chooses among `best_of`, which names each value once; files lie inside of the workspace."""
    definition["if"] = given(scorer={"type": "string"})
    definition["then"] = given(best_of=_FILLED | {"type": ["string", "array"]})
    properties = definition["properties"]
    properties["files"]["propertyNames"] |= {"not": {"pattern": _OUTSIDE}}
    next(form for form in properties["best_of"]["anyOf"] if form.get("type") == "array")["uniqueItems"] = True


def add_agent_rules(definition: JsonSchema) -> None:
    """Only a sandbox keeps an agent from the network."""
    definition["if"] = given(network={"const": False})
    definition["then"] = given(sandbox={"not": {"enum": ["none", None]}})


def add_workspace_rules(definition: JsonSchema) -> None:
    """The template is a directory or a repository, and only the latter has commits."""
    definition["not"] = given(path=_TEXT, repo=_TEXT)
    definition["if"] = given(commit=_TEXT)
    definition["then"] = given(repo=_TEXT)


def _excluding(name: str, value: JsonSchema, others: tuple[str, ...]) -> JsonSchema:
    """The rule that nothing is said under the other keys where this one has such a value."""
    return {"if": given(**{name: value}), "then": {"properties": dict.fromkeys(others, EMPTY)}}


def _no_workspace() -> JsonSchema:
    return alternatives([_NULL, nothing_in(WorkspaceSpec)])


def _in_each_value(**properties: JsonSchema) -> JsonSchema:
    """A rule about what every value of every axis gives."""
    return {"properties": {"axes": {"additionalProperties": {"additionalProperties": {"properties": properties}}}}}
