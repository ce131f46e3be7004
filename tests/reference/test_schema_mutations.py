"""The JSON Schema and loading agree, over every small change to evals that use every block.

Each value of each eval is replaced by values of every type and size, each key is left out, and an unknown key is added
to each map; and every two keys of a block are given together. An independent validator has to say what loading says;
there is nothing random.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import jsonschema_rs
import pytest
from full_evals import FULL_EVALS, refusal

from holdfast.reference.eval_schema import eval_schema
from holdfast.spec.loading.yaml_document import read_document

VALIDATOR = jsonschema_rs.Draft202012Validator(eval_schema())

WRONG_VALUES: tuple[Any, ...] = (
    *(None, True, "", "many", "2m", "0s", "0d0.00ms", [], ["x"], [None], {}, {"surprise": 1}, {"surprise": None}),
    *(0, -1, 1.0, 1.5, 2.0, 1e300, 10**12),
)


class Beyond(NamedTuple):
    """Something that loading refuses and no JSON Schema can express."""

    reason: str
    words: str
    """A pattern for the refusal."""
    example: str
    """The keys of a valid eval that make it so."""


VALID = "{models: {m: scripted/echo}, datasets: {d: d.csv}, tasks: {t: {dataset: d, scorers: [exact]}}}"
A_TASK = "tasks: {t: {dataset: d, models: [m], scorers: [exact], %s}}"
REQUIRING = A_TASK % "sampling: {strategy: rejection, requirements: [%s]}"
A_MODEL = "models: {m: {provider: openai, model: x, %s}}"

BEYOND_STRUCTURE = (
    Beyond(
        "a name refers to another",
        "is unknown|unknown model|not a model of|There is no (dataset|model)",
        "tasks: {t: {dataset: other, scorers: [exact]}}",
    ),
    Beyond("bases refer to one another", "in a circle", "models: {m: {base: b}, b: {base: m}}"),
    Beyond("a base brings other values", "has no replies", "models: {m: {base: e, model: x}, e: scripted/echo}"),
    Beyond(
        "other tasks say which models are judges",
        "every model is a judge",
        "tasks: {t: {dataset: d, scorers: [exact], sampling: {strategy: escalate, loop_budget: 3, escalate_to: [m]}}}",
    ),
    Beyond(
        "prices of all models of a task", "needs a price", A_TASK % "sampling: {strategy: rejection, budget: {cost: 1}}"
    ),
    Beyond("two places for one key", "keep one of them", "max_retries: 1\nrunner: {max_retries: 2}"),
    Beyond(
        "what looks like a key",
        "literal key|environment variable|credentials",
        A_MODEL % "headers: {X-Key: Bearer abcdefghijkl}",
    ),
    Beyond(
        "Python's regular expressions",
        "not a valid regular expression|no regular expression",
        "datasets: {d: {path: d.csv, operations: [{filter: {field: a, matches: '('}}]}}",
    ),
    Beyond(
        "groups of a pattern", "has no group", "tasks: {t: {dataset: d, scorers: [{regex: {pattern: a, group: 3}}]}}"
    ),
    Beyond(
        "bounds of a duration as text",
        r'is "[^"]*"; allowed: a number \S+ \S+ up to \S+ \(seconds\)',
        "retry_deadline: 9999d",
    ),
    Beyond(
        "64 bits, in values of any type",
        "finite number",
        A_MODEL % "generation: {extra_body: {n: 99999999999999999999}}",
    ),
    Beyond("two bounds in order", "above its max", REQUIRING % "{length: {min: 2, max: 1}}"),
    Beyond("the syntax of templates", "single '", A_TASK % "prompt: '{'"),
    Beyond("names that follow from the others", "Two scorers", "tasks: {t: {dataset: d, scorers: [exact, exact]}}"),
    Beyond("a JSON Schema inside an eval", "not a JSON schema", REQUIRING % "{json_schema: {schema: {type: many}}}"),
    Beyond(
        "values of an axis refer to one another",
        "not a value of that axis|break the cycle|is not an axis of the task",
        A_TASK % "axes: {tier: {T0: {best_of: [T9]}}}",
    ),
    Beyond("values of several axes", "on one axis only", A_TASK % "axes: {a: {x: {system: s}}, b: {y: {system: s}}}"),
    Beyond("which combinations are left", "leave no combination", A_TASK % "axes: {a: [x]}, exclude: [{a: x}]"),
    Beyond("whether a file exists", "does not exist. The path is", REQUIRING % "{function: 'none.py:check'}"),
    Beyond("printable characters", "cannot be used", REQUIRING % '{python: {id: "a\\tb"}}'),
)


class Mutation(NamedTuple):
    kind: str
    path: tuple[str | int, ...]
    data: Any

    def __str__(self) -> str:
        return f"{self.kind} at {'.'.join(map(str, self.path))}"


def mutations(document: Any) -> Iterator[Mutation]:
    for path, value in places(document):
        for other in WRONG_VALUES:
            if other != value or type(other) is not type(value):
                yield Mutation(f"{other!r}", path, changed(document, path, other))
        if path and isinstance(path[-1], str):
            yield Mutation("missing key", path, changed(document, path))
        if isinstance(value, dict):
            yield Mutation("unknown key", path, changed(document, (*path, "surprise"), 1))
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield Mutation("negated", path, changed(document, path, -value))


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in items:
        yield from places(entry, (*path, key))


GONE = object()


def changed(document: Any, path: tuple[str | int, ...], value: Any = GONE) -> Any:
    """A copy with another value at a place, or without it."""
    if not path:
        return value
    result = copy.deepcopy(document)
    *before, last = path
    inner = result
    for key in before:
        inner = inner[key]
    if value is GONE:
        del inner[last]
    else:
        inner[last] = value
    return result


def is_beyond(reason: str) -> bool:
    """Whether every problem that loading names is one that no JSON Schema can express."""
    problems = reason.split("\n  - ")[1:] or [reason]
    return all(any(re.search(known.words, problem) for known in BEYOND_STRUCTURE) for problem in problems)


@pytest.mark.parametrize("name", FULL_EVALS)
def test_what_loading_accepts_is_valid(name):
    """Each of the evals that are changed below can be run, and is valid."""
    data = read_document(FULL_EVALS[name], name)
    assert refusal(data) == ""
    assert [error.message for error in VALIDATOR.iter_errors(data)] == []


@pytest.mark.parametrize("known", BEYOND_STRUCTURE, ids=lambda known: known.reason)
def test_what_only_loading_refuses_is_listed_with_a_reason(known):
    """The schema accepts it, loading does not; whatever the schema comes to express leaves the list."""
    data = {**read_document(VALID, "valid"), **read_document(known.example, "example")}
    assert VALIDATOR.is_valid(data)
    assert re.search(known.words, refusal(data))


@pytest.mark.parametrize("name", FULL_EVALS)
def test_the_schema_and_loading_agree_on_every_change(name):
    """The schema rejects what loading rejects, apart from what structure does not show; and accepts all else."""
    agreed = Counter()
    for mutation in mutations(read_document(FULL_EVALS[name], name)):
        reason, valid = refusal(mutation.data), VALIDATOR.is_valid(mutation.data)
        if reason and valid:
            assert is_beyond(reason), f"{mutation}: only loading refuses it: {reason}"
        elif not reason:
            assert valid, f"{mutation}: only the schema refuses it"
        else:
            agreed[mutation.kind] += 1
    assert agreed["missing key"] >= 2
    assert agreed["unknown key"] >= 3
    assert agreed.total() >= 200


TASK = {"dataset": "d", "scorers": ["exact"]}
AGENT_TASK = {**TASK, "agent": {"command": ["x"]}}
SAMPLED = {**TASK, "models": ["m"]}
BLOCKS: dict[str, tuple[str, tuple[str, ...], Any]] = {
    "an eval": ("EvalSpec", (), {}),
    "a declarative task": ("TaskSpec", ("tasks", "t"), TASK),
    "a task with an agent": ("TaskSpec", ("tasks", "t"), AGENT_TASK),
    "a Python task": ("TaskSpec", ("tasks", "t"), {"use": "t.py:t"}),
    "an agent": ("AgentSpec", ("tasks", "t", "agent"), AGENT_TASK),
    "a workspace": ("WorkspaceSpec", ("tasks", "t", "workspace"), {**AGENT_TASK, "workspace": {}}),
    "a value of an axis": (
        "AxisValue",
        ("tasks", "t", "axes", "a", "T0"),
        {**TASK, "axes": {"a": {"T0": {}, "T1": {}}}},
    ),
    "a model": ("ModelSpec", ("models", "m"), TASK),
    "a sampling": ("SamplingSpec", ("tasks", "t", "sampling"), {**SAMPLED, "sampling": {"strategy": "rejection"}}),
}
"""By what it is: the definition of a block, its place in an eval, and the task of that eval."""


def example_values(schema: Any) -> list[Any]:
    """Values that a key may have: its example, nothing, and each of those that are listed."""
    kinds = schema.get("type", [])
    flags = [True, False] if "boolean" in ([kinds] if isinstance(kinds, str) else kinds) else []
    return [*schema.get("examples", []), None, *flags, *schema.get("enum", [])]


@pytest.mark.parametrize("name", BLOCKS)
def test_the_schema_and_loading_agree_on_every_two_keys(name):
    """Keys that exclude or need one another: each pair, with the examples of both, with null and with every choice."""
    kind, path, task = BLOCKS[name]
    base = {**read_document(VALID, "valid"), "tasks": {"t": task}}
    if kind == "ModelSpec":
        base["models"] = {"m": {"provider": "openai", "model": "x"}}
    values = {key: example_values(schema) for key, schema in eval_schema()["$defs"][kind]["properties"].items()}
    refused = 0
    for first, second in itertools.combinations(values, 2):
        for one, other in itertools.product(values[first], values[second]):
            data = changed(changed(base, (*path, first), one), (*path, second), other)
            reason, valid = refusal(data), VALIDATOR.is_valid(data)
            pair = f"{first}: {one!r}, {second}: {other!r}"
            assert valid or reason, f"{pair}: only the schema refuses it"
            assert not (valid and reason) or is_beyond(reason), f"{pair}: only loading refuses it: {reason}"
            refused += bool(reason) and not valid
    assert refused, "no pair of keys is refused, so nothing was compared"
