"""Values for every field of the schema, made from its types: one to stand in a file, and random ones."""

import itertools
import re
import typing
from typing import Any, Literal

from hypothesis import strategies

from holdfast.spec import Block, EvalSpec, Field, FieldPlace, schema_places
from holdfast.spec.loading.literal_keys import literal_keys
from holdfast.spec.schema.introspect import blocks_in, is_block, is_optional, members, schema_fields, unwrapped

MINIMAL = {
    "models": {"small": {"provider": "scripted", "model": "echo"}},
    "datasets": {"rows": {"path": "rows.jsonl"}},
    "tasks": {"ask": {"dataset": "rows"}},
}
NAMES = {"models": "small", "datasets": "rows", "tasks": "ask", "axes": "tier", "tier": "T0"}

OTHERWISE = {
    "api_key_env": "SOME_KEY",
    "currency": "EUR",
    "few_shot_template": "{input} {output}",
    "grace_period": 7.5,
    "matches": "^a",
    "segment_bytes": 1 << 20,
    "selection": "best",
    "solver": "solve.py:solve",
    "vote": "similarity",
}
"""Values for fields where a value made from the type alone would not do, or would be the default."""


STRATEGIES = {"vote": "vote", "extract": "vote", "scorer": "best_of_n", "escalate_to": "escalate"}
"""By field of `sampling`, the strategy that has a use for it."""


def all_places() -> list[FieldPlace]:
    return list(schema_places(EvalSpec))


def leaves() -> list[FieldPlace]:
    return [place for place in all_places() if place.is_leaf]


def steps_to(place: FieldPlace) -> list[str | int]:
    """The keys and positions that lead to a place, in the minimal eval's names."""
    steps: list[str | int] = []
    for part in place.path.replace("[]", ".[]").split("."):
        if part == "[]":
            steps.append(0)
        else:
            steps.append(NAMES[str(steps[-1])] if part == "*" else part)
    return steps


def document_with(place: FieldPlace, value: Any) -> dict[str, Any]:
    """A loadable eval, as plain data, in which the value stands at the place."""
    document: dict[str, Any] = {name: {key: dict(entry) for key, entry in MINIMAL[name].items()} for name in MINIMAL}
    steps = steps_to(place)
    last, block = steps[-1], document
    for step, following in itertools.pairwise(steps):
        block = _entered(block, step, empty=[{}] if following == 0 else {})
    block[last] = value
    for name, field in schema_fields(place.block).items():
        if field.required and name != last:
            block[name] = example(field)
    complete_sampling(document["tasks"].get("ask", {}), str(last))
    complete_agent(document["tasks"].get("ask", {}), place.path)
    if place.path.endswith("sampling.budget.cost"):
        add_prices(document)
    if place.block.exactly_one and last not in place.block.exactly_one:
        first = place.block.exactly_one[0]
        block[first] = example(schema_fields(place.block)[first])
    return document


def complete_sampling(task: dict[str, Any], field: str) -> None:
    """Gives the `sampling` of a task, if it has one, what goes with a field of it."""
    sampling = task.get("sampling")
    if isinstance(sampling, dict):
        name, value = ("strategy", STRATEGIES.get(field, "rejection")) if field != "strategy" else ("loop_budget", 2)
        sampling[name] = value
        if value == "escalate":
            sampling["loop_budget"] = 3


def complete_agent(task: dict[str, Any], path: str) -> None:
    """Gives the agent and the workspace of a task, if it has one of them, what goes with a field of it."""
    if ".agent." in path and path != "tasks.*.agent.command":
        task["agent"].setdefault("command", ["run"])
    if ".workspace" in path:
        task["agent"] = {"command": ["run"]}
    if path.endswith("workspace.commit"):
        task["workspace"]["repo"] = "repository"
    if path.endswith("agent.network"):
        task["agent"]["sandbox"] = "sandlock"


def complete_axes(task: dict[str, Any], field: str) -> None:
    """Gives a task what goes with a field of its axes."""
    tier = task.setdefault("axes", {}).setdefault("tier", {})
    for value in ("T0", "T1", "T2"):
        tier.setdefault(value, {})
    if field == "scorer":
        tier["T0"]["best_of"] = ["T1"]
    if field == "args":
        task["use"] = task.get("use") or "some_task"
        task.pop("dataset", None)


def add_prices(document: dict[str, Any]) -> None:
    """Gives every model a price, without which a cap on cost is refused."""
    for model in document["models"].values():
        model["price"] = {"input": 1.0, "output": 2.0}


def example(field: Field) -> Any:
    """A valid value that is not the field's default."""
    return OTHERWISE.get(field.name, _example(members(field.type)[0], field))


def other_example(field: Field) -> Any:
    """A second valid value, different from the first."""
    value = example(field)
    if isinstance(value, list | dict):
        return type(value)()
    kind = unwrapped(members(field.type)[0])
    if typing.get_origin(kind) is Literal:
        return next(choice for choice in typing.get_args(kind) if choice != value)
    return f"{value} more" if isinstance(value, str) else value + 1


def may_be_absent(place: FieldPlace) -> bool:
    return not place.field.required and place.field.name not in place.block.exactly_one


def spec_strategy(block: type[Block]) -> strategies.SearchStrategy[Any]:
    """Random valid blocks, in the form in which loading gives them."""
    chosen = strategies.sampled_from(block.exactly_one or ("",))
    return chosen.flatmap(lambda name: _with_fields(block, name))


def _entered(block: Any, step: str | int, *, empty: Any) -> Any:
    if isinstance(step, str):
        return block.setdefault(step, empty)
    return block[step]


def _example(kind: Any, field: Field) -> Any:
    plain = unwrapped(kind)
    origin, arguments = typing.get_origin(plain), typing.get_args(plain)
    if origin is list:
        return [_example(members(arguments[0])[0], field)]
    if origin is dict:
        return {_example(arguments[0], field): _example(members(arguments[1])[0], field)}
    return _scalar_example(plain, field)


def _scalar_example(plain: Any, field: Field) -> Any:
    if typing.get_origin(plain) is Literal:
        return next(value for value in typing.get_args(plain) if value != field.default)
    if plain is bool:
        return field.default is not True
    if plain in (int, float):
        return plain(1 if field.default != 1 else 2)
    return "word"


def _with_fields(block: type[Block], chosen: str) -> strategies.SearchStrategy[Any]:
    fields = {
        field.attribute: _field_strategy(field, given=name == chosen)
        for name, field in schema_fields(block).items()
        if name == chosen or name not in block.exactly_one
    }
    return strategies.builds(block, **fields)


def _field_strategy(field: Field, *, given: bool) -> strategies.SearchStrategy[Any]:
    if field.name == "api_key_env":
        return strategies.none() | strategies.from_regex(r"[A-Z_]{1,20}", fullmatch=True)
    if given:
        return strategies.one_of(*map(_kind_strategy, members(field.type))).filter(lambda value: value is not None)
    choices = [_kind_strategy(member) for member in members(field.type)]
    if is_optional(field.type):
        # An optional block with nothing in it is the same as no block.
        empty = [kind() for kind in blocks_in(field.type) if not any(f.required for f in schema_fields(kind).values())]
        choices = [choice.map(lambda value: None if value in empty else value) for choice in choices]
        choices.append(strategies.none())
    return strategies.one_of(*choices)


def _kind_strategy(kind: Any) -> strategies.SearchStrategy[Any]:
    plain = unwrapped(kind)
    origin, arguments = typing.get_origin(plain), typing.get_args(plain)
    if kind is Any:
        return _anything()
    if is_block(plain):
        return spec_strategy(plain)
    if origin is Literal:
        return strategies.sampled_from(arguments)
    if origin is list:
        return strategies.lists(strategies.one_of(*map(_kind_strategy, members(arguments[0]))), max_size=3)
    if origin is dict:
        entries = strategies.one_of(*map(_kind_strategy, members(arguments[1])))
        return strategies.dictionaries(_kind_strategy(arguments[0]), entries, max_size=3)
    return _scalar_strategy(kind)


def _scalar_strategy(kind: Any) -> strategies.SearchStrategy[Any]:
    meta = next(iter(getattr(kind, "__metadata__", ())), None)
    plain = unwrapped(kind)
    if plain is bool:
        return strategies.booleans()
    if plain is int:
        return strategies.integers(meta.ge, meta.le)
    if plain is float:
        low = meta.ge if meta.gt is None else meta.gt
        return strategies.floats(low, meta.le, exclude_min=meta.gt is not None)
    texts = _texts(min_size=(meta.min_length or 0) if meta else 0, max_size=20)
    if meta and meta.pattern:
        return texts.filter(re.compile(meta.pattern).search)
    return texts


def _texts(**sizes: int) -> strategies.SearchStrategy[str]:
    """Any text but a key or the name of one, which no eval may hold; Hypothesis knows such words from the sources."""
    texts = strategies.text(_characters(), **sizes)
    return texts.filter(lambda text: not list(literal_keys({text or "x": text or 1}, "models")))


def _characters() -> strategies.SearchStrategy[str]:
    """Any character that UTF-8 can hold."""
    return strategies.characters(exclude_categories=("Cs",))


def _anything() -> strategies.SearchStrategy[Any]:
    numbers = strategies.integers(-(2**63), 2**63 - 1) | strategies.floats(allow_nan=False, allow_infinity=False)
    texts = _texts(max_size=10)
    return strategies.recursive(
        strategies.none() | strategies.booleans() | numbers | texts,
        lambda inner: strategies.lists(inner, max_size=3) | strategies.dictionaries(texts, inner, max_size=3),
        max_leaves=5,
    )
