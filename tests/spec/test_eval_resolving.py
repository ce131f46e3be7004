"""Evals that ask for the same work resolve to equal values; names that lead nowhere are refused."""

import contextlib
import copy
import random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schema_values import MINIMAL, document_with, leaves, may_be_absent

from holdfast.errors import ConfigurationError
from holdfast.spec import (
    DatasetSpec,
    EvalSpec,
    Generation,
    ModelSpec,
    TaskSpec,
    canonical_bytes,
    load_eval,
    parse_eval,
    resolve,
    typed_eval,
)

FULL = """
name: capitals
seed: 1
concurrency_limit: 256
runner: {concurrency_limits: {solve: 128, score: 32}, max_retries: 2}
models:
  small:
    provider: openai
    model: gpt-4o-mini
    base_url: http://127.0.0.1:8000/v1
    api_key_env: OPENAI_API_KEY
    concurrency_limit: 64
    rate_limit: {requests_per_minute: 600, tokens_per_minute: 200000}
    generation: {temperature: 0.0, max_tokens: 64}
    price: {input: 0.15, output: 0.60}
  judge: {base: small, model: gpt-4o}
datasets:
  capitals: {path: capitals.jsonl, operations: [{shuffle: {seed: 42}}, {slice: {num: 1000}}]}
tasks:
  capitals:
    dataset: capitals
    limit: 100
    models: [small]
    prompt: "What is the capital of {country}? One word."
    target: "{capital}"
    epochs: 2
    scorers: [exact, {model_graded: {model: judge}}]
    limits: {time: 120, tokens: 4000, cost: 0.05}
  code:
    use: tasks/code.py:fix_bug
    args: {difficulty: hard}
"""


def resolved(text: str) -> EvalSpec:
    return resolve(parse_eval(text))


def with_models(models) -> EvalSpec:
    return resolve(typed_eval({**MINIMAL, "models": models}))


def refusal(document) -> str:
    with pytest.raises(ConfigurationError) as caught:
        resolve(typed_eval(document), "eval.yaml")
    return str(caught.value)


def test_the_usual_form_resolves():
    """The eval of the documentation resolves with everything explicit."""
    spec = resolved(FULL)
    judge = spec.models["judge"]
    assert (judge.provider, judge.model, judge.base, judge.base_url) == (
        "openai",
        "gpt-4o",
        None,
        "http://127.0.0.1:8000/v1",
    )
    assert judge.generation == Generation(temperature=0.0, max_tokens=64)
    assert spec.tasks["capitals"].models == ["small"]
    assert spec.tasks["code"].models == ["small"]
    assert spec.tasks["capitals"].scorers == ["exact", {"model_graded": {"model": "judge"}}]
    assert (judge.timeouts.connect, judge.timeouts.read, judge.timeouts.total) == (10.0, 600.0, 3600.0)


def test_resolving_is_done_once():
    """A resolved eval resolves to itself."""
    spec = resolved(FULL)
    assert resolve(spec) == spec


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seed: 1", "seed: 1.0"),
        ("temperature: 0.0", "temperature: 0"),
        ("temperature: 0.0", "temperature: -0.0"),
        ("temperature: 0.0", "temperature: 0, top_p: null, stop: [], logprobs: false, extra_body: {}"),
        ("concurrency_limit: 256\n", ""),
        ("concurrency_limit: 256\n", "concurrency_limit:\n"),
        ("concurrency_limit: 256\n", "grace_period: 30\nretry_deadline: 3600\nshow_progress: true\n"),
        (", max_retries: 2", ""),
        ("time: 120", "time: 120.0"),
        ("models: [small]", "models: small"),
        ("epochs: 2", "epochs: 2.0\n    choices:\n    system: ~\n    few_shot: []\n    runner: {}"),
        ("scorers: [exact,", "scorers: [{exact: {}},"),
        ("scorers: [exact,", "scorers: [{exact: null},"),
        ("scorers: [exact,", 'scorers: ["exact",'),
        ("base: small, model: gpt-4o", "base: small, model: gpt-4o, base_url: null, price: {}, rate_limit: {}"),
        ("base: small, model: gpt-4o", "base: small, model: gpt-4o, generation: {}, timeouts: {read: 600}"),
        ("{slice: {num: 1000}}", "{slice: {start: 0, num: 1000}, filter: null}"),
        ("path: capitals.jsonl,", "format: null, path: ./capitals.jsonl, fields: {},"),
        ("use: tasks/code.py:fix_bug", "use: tasks/code.py:fix_bug\n    models: [small]"),
        ("args: {difficulty: hard}", "args:\n      # a comment\n      'difficulty': \"hard\""),
    ],
)
def test_spelling_makes_no_difference(old, new):
    """An explicit default, null, an empty block, 0.0 for 0, quotes and comments ask for the same work."""
    assert FULL.count(old) == 1
    changed = resolved(FULL.replace(old, new))
    assert changed == resolved(FULL)
    assert canonical_bytes(changed) == canonical_bytes(resolved(FULL))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seed: 1\n", "seed: 2\n"),
        ("difficulty: hard", "difficulty: 1"),
        ("exact,", "includes,"),
        ("num: 1000", "num: 999"),
    ],
)
def test_other_work_is_a_difference(old, new):
    """The comparison above can tell evals apart."""
    assert resolved(FULL.replace(old, new)) != resolved(FULL)


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_keys_makes_no_difference(seed):
    """Keys in any order, at every level, give the same eval."""
    print("seed", seed)
    source = random.Random(seed)

    def shuffled(value):
        if isinstance(value, dict):
            entries = list(value.items())
            source.shuffle(entries)
            return {name: shuffled(entry) for name, entry in entries}
        return value

    data = msgspec.json.decode(canonical_bytes(resolved(FULL)))
    assert canonical_bytes(resolve(typed_eval(shuffled(data)))) == canonical_bytes(resolved(FULL))


@pytest.mark.parametrize("place", [place for place in leaves() if may_be_absent(place)], ids=lambda place: place.path)
def test_null_is_absent_in_every_place(place):
    """A field set to null is the same as no field, anywhere."""
    document = document_with(place, None)
    absent = copy.deepcopy(document)
    remove_nulls(absent)
    assert typed_eval(document) == typed_eval(absent)


def remove_nulls(value):
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            remove_nulls(inner)
    if isinstance(value, dict):
        for name in [name for name, inner in value.items() if inner is None]:
            del value[name]


@pytest.mark.parametrize("place", [place for place in leaves() if may_be_absent(place)], ids=lambda place: place.path)
def test_an_explicit_default_is_absent_in_every_place(place):
    """A field set to its default is the same as no field, anywhere."""
    default = msgspec.to_builtins(place.field.default)
    given, absent = typed_eval(document_with(place, default)), typed_eval(document_with(place, None))
    # A workspace that says nothing becomes none when the eval is resolved.
    assert given == absent or (".workspace." in place.path and resolve(given) == resolve(absent))


def test_a_chain_of_bases_is_followed():
    """A model takes what it does not give from its base, and the base from its own, key by key in maps."""
    spec = with_models(
        {
            "c": {"base": "b", "generation": {"temperature": 1}, "headers": {"X": "c"}, "timeouts": {"read": 600}},
            "b": {"base": "a", "model": "two", "generation": {"max_tokens": 5}, "args": {"n": 2}},
            "a": {
                "provider": "p",
                "model": "one",
                "generation": {"temperature": 0, "top_p": 0.5, "extra_body": {"k": 1}},
                "headers": {"X": "a", "Y": "a"},
                "timeouts": {"read": 5, "total": 9},
                "args": {"m": 1},
            },
        }
    )
    model = spec.models["c"]
    assert (model.provider, model.model, model.base) == ("p", "two", None)
    assert model.generation == Generation(temperature=1.0, top_p=0.5, max_tokens=5, extra_body={"k": 1})
    assert model.headers == {"X": "c", "Y": "a"}
    assert model.args == {"m": 1, "n": 2}
    assert (model.timeouts.read, model.timeouts.total) == (600.0, 9.0)
    assert spec.models["a"].model == "one"


def test_a_derived_model_can_set_zero():
    """A value of 0 in a derived model stands against its base's."""
    spec = with_models(
        {
            "a": {"provider": "p", "model": "m", "generation": {"temperature": 1}},
            "b": {"base": "a", "generation": {"temperature": 0}},
        }
    )
    assert spec.models["b"].generation.temperature == 0.0


@pytest.mark.parametrize(
    ("bases", "circle"),
    [({"a": "a"}, "a → a"), ({"a": "b", "b": "a"}, "a → b → a"), ({"a": "c", "b": "c", "c": "b"}, "b → c → b")],
)
def test_a_circle_of_bases_is_refused(bases, circle):
    """Models that derive from each other in a circle are refused with the names in order."""
    message = refusal({**MINIMAL, "models": {name: {"base": base} for name, base in bases.items()}})
    assert message == f"eval.yaml: models.{circle[0]}.base goes round in a circle: {circle}."


def test_a_long_chain_of_bases_is_no_trouble():
    """A thousand derivations in a row resolve without exhausting the stack."""
    models = {"m0": {"provider": "p", "model": "m"}, **{f"m{n}": {"base": f"m{n - 1}"} for n in range(1, 1000)}}
    assert with_models(models).models["m999"].model == "m"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            {"models": {"small": "p/m", "x": {"base": "smal"}}},
            'models.x.base names the unknown model "smal"; did you mean small?',
        ),
        ({"tasks": {"t": {"dataset": "row"}}}, 'There is no dataset named "row" (tasks.t.dataset); did you mean rows?'),
        (
            {"tasks": {"t": {"dataset": "rows", "models": ["smal"]}}},
            'tasks.t.models[0] is "smal", which is unknown; did you mean small?',
        ),
        (
            {"tasks": {"t": {"dataset": "rows", "models": ["small", "small"]}}},
            'tasks.t.models[1] is "small" a second time',
        ),
        ({"tasks": {"t": {"dataset": "rows", "models": []}}}, "tasks.t.models is an empty list"),
        ({"tasks": {"t": {}}}, "tasks.t has neither dataset nor use"),
        ({"tasks": {"t": None}}, "tasks.t has neither dataset nor use"),
        ({"tasks": {"t": {"use": "x", "dataset": "rows", "prompt": "?"}}}, "tasks.t has use and also dataset, prompt"),
        ({"tasks": {"t": {"dataset": "rows", "args": {"n": 1}}}}, "tasks.t.args is for a Python task"),
        ({"tasks": {}}, "tasks is missing"),
        ({"models": None}, "models is missing"),
        ({"models": {"small": {"model": "gpt"}}}, "models.small.provider is missing"),
        ({"models": {"small": {"provider": "openai"}}}, "models.small.model is missing"),
        (
            {"tasks": {"t": {"dataset": "rows", "scorers": [{"a": {}, "b": {}}]}}},
            "tasks.t.scorers[0] must have exactly one name",
        ),
        ({"tasks": {"t": {"dataset": "rows", "scorers": [{}]}}}, "tasks.t.scorers[0] must have exactly one name"),
        (
            {"tasks": {"t": {"dataset": "rows", "scorers": [{"a": 3}]}}},
            "tasks.t.scorers[0] must give its arguments as a map",
        ),
        (
            {"datasets": {"rows": {"path": "x", "operations": [{"filter": {"field": "f", "matches": "("}}]}}},
            'datasets.rows.operations[0].filter.matches is "(", which is no',
        ),
    ],
)
def test_what_leads_nowhere_is_refused(document, message):
    """A name that is not there, and a task that makes no sense, are refused with the way out."""
    assert message in refusal({**MINIMAL, **document})


def test_the_provider_may_stand_before_the_model():
    """`provider/model` is understood as an entry and as the model of an entry; a model's own slashes stay."""
    spec = with_models(
        {"a": "openrouter/meta/llama", "b": {"model": "openai/gpt"}, "c": {"provider": "p", "model": "x/y"}}
    )
    assert [(model.provider, model.model) for model in spec.models.values()] == [
        ("openrouter", "meta/llama"),
        ("openai", "gpt"),
        ("p", "x/y"),
    ]


def test_paths_start_at_the_eval_file(tmp_path, monkeypatch):
    """A dataset is found next to the eval file from wherever the command is given; `use` stays."""
    (tmp_path / "evals").mkdir()
    file = tmp_path / "evals" / "a.yaml"
    file.write_text(
        "models: {m: p/q}\n"
        "datasets: {a: x.jsonl, b: {path: ../y.jsonl}, c: /data/z.jsonl}\n"
        "tasks: {t: {use: code.py:fix}}\n"
    )
    monkeypatch.chdir(tmp_path)
    spec = resolve(load_eval("evals/a.yaml"))
    assert [dataset.path for dataset in spec.datasets.values()] == [
        str(tmp_path / "evals" / "x.jsonl"),
        str(tmp_path / "y.jsonl"),
        "/data/z.jsonl",
    ]
    assert spec.tasks["t"].use == "code.py:fix"
    assert spec.locate("code.py") == str(tmp_path / "evals" / "code.py")


def test_an_eval_built_in_python_meets_the_same_checks():
    """A value that a file could not hold is refused when it comes from Python too."""
    spec = EvalSpec(
        models={"m": ModelSpec("p", "q", generation=Generation(temperature=-1.0))},
        datasets={"d": DatasetSpec("x")},
        tasks={"t": TaskSpec("d")},
    )
    with pytest.raises(ConfigurationError, match=r"models\.m\.generation\.temperature is -1\.0"):
        resolve(spec)


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from([*MINIMAL, "runner", "small", "path", "x"]), inner, max_size=4)
        ),
        max_leaves=20,
    )
)
def test_any_data_is_resolved_or_refused(data):
    """Whatever stands in a file, the answer is an eval or a configuration error."""
    with contextlib.suppress(ConfigurationError):
        assert resolve(resolve(typed_eval(data))) == resolve(typed_eval(data))
