"""`holdfast import effective_config.yaml`: an eval file, and a reason for every key that is not in it."""

from __future__ import annotations

import errno
import json

import pytest

from cli_calls import call
from holdfast.errors import HoldfastError, UsageError
from holdfast.interop.sieval.config_file import convert, recognises
from holdfast.spec import load_eval, resolve
from holdfast.storage import RealFileSystem
from holdfast.testing.faulty_filesystem import FaultyFileSystem, InjectedFault

KEY = "sk-abcdefghijklmnopqrstuvwxyz"
CONFIG = f"""\
# ==========================================
# Created by sieval 0.3.1 at 2025-06-01
# Resumed by sieval 0.3.1 at 2025-06-02:
# ==========================================
result_dir: /data/results
concurrency_limit: 256
deterministic: false
runner_config:
  concurrency_limits: {{preprocess: 8, infer: 128, postprocess: 8, feedback: 8}}
  max_iterations: 3
  max_retries: 5
  shard_samples: 1024
  write_buffer_size: 64
  show_progress: true
  progress_log_interval: 15
  record_each_stage: true
  auto_resume: false
  brand_new: 1
models:
  base_model:
    name: gpt-4o
    api_base: http://127.0.0.1:8000/v1
    api_key: {KEY}
    args: {{max_retries: 3, concurrency_limit: 128, max_tokens: 8192, temperature: 0.0, timeout: 3600}}
  math_model: {{base: base_model, args: {{temperature: 0.7}}}}
  from_env: {{name: x, api_key: "${{MY_KEY}}"}}
  local: {{args: {{max_tokens: 5}}, infer: {{backend: sglang}}, infer_meta: {{a: 1}}}}
datasets:
  mmlu:
    class: MMLUDataset
    path: "${{DATA_DIR}}/mmlu.jsonl"
    operations: [{{shuffle: {{seed: 42}}}}, {{warp: 1}}]
    args: {{a: 1}}
tasks:
  aime:
    class: AIME2024ZeroShotGenTask
    dataset: mmlu
    model: math_model
    args: {{k: 1, n: 64}}
    infer_args: {{max_tokens: 4096}}
    runner_config: {{concurrency_limits: {{infer: 4}}}}
alignment: {{card: x}}
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA_DIR", "/srv/data")
    path = tmp_path / "effective_config.yaml"
    path.write_text(CONFIG)
    return path


def test_the_eval_file_means_the_same(config, tmp_path, capfdbinary):
    """Models, generation, limits, datasets and operations are carried over, and the file loads."""
    told = call(capfdbinary, "import", config)
    assert told.code == 0 and "holdfast run eval.yaml --dry-run" in told.out
    spec = resolve(load_eval(tmp_path / "eval.yaml"))
    assert spec.runner.concurrency_limit == 256 and spec.runner.log_interval == 15
    assert (spec.runner.concurrency_limits.solve, spec.runner.concurrency_limits.score) == (128, 8)
    base, math = spec.models["base_model"], spec.models["math_model-aime"]
    assert (base.model, base.base_url, base.timeouts.total) == ("gpt-4o", "http://127.0.0.1:8000/v1", 3600)
    assert (base.concurrency_limit, base.generation.max_tokens) == (128, 8192)
    assert (math.generation.temperature, math.generation.max_tokens, math.model) == (0.7, 4096, "gpt-4o")
    assert spec.datasets["mmlu"].path == "/srv/data/mmlu.jsonl"
    assert spec.datasets["mmlu"].operations[0].shuffle.seed == 42
    assert spec.tasks["aime"].models == ["math_model-aime"] and spec.tasks["aime"].runner.concurrency_limits.solve == 4


def test_every_other_key_is_named_with_its_reason(config, tmp_path, capfdbinary):
    told = call(capfdbinary, "import", config, "--output", "mine.yaml", "--json")
    named = {item["key"]: item["reason"] for item in json.loads(told.out)["not_carried"]}
    assert named.keys() == {
        *("result_dir", "alignment", "runner_config.brand_new", "runner_config.max_iterations"),
        *("runner_config.max_retries", "runner_config.shard_samples", "runner_config.write_buffer_size"),
        *("runner_config.record_each_stage", "runner_config.auto_resume"),
        *(f"runner_config.concurrency_limits.{stage}" for stage in ("preprocess", "postprocess")),
        *("models.base_model.api_key", "models.base_model.args.max_retries", "models.local.infer"),
        *("models.local.infer_meta", "datasets.mmlu.class", "datasets.mmlu.args", "datasets.mmlu.operations[1].warp"),
        *("tasks.aime.class", "tasks.aime.args.k", "tasks.aime.args.n"),
    }
    assert all(named.values()) and "resumed there" in named["runner_config.max_retries"]
    text = (tmp_path / "mine.yaml").read_text()
    assert [key for key in named if key not in text] == []


def test_a_literal_key_is_never_carried_over(config, tmp_path, capfdbinary):
    """Not into the file, not into what is printed; the variable to set is named."""
    told = call(capfdbinary, "import", config)
    text = (tmp_path / "eval.yaml").read_text()
    assert KEY not in text + told.out + told.err
    assert "export BASE_MODEL_API_KEY=" in told.out and "api_key_env: BASE_MODEL_API_KEY" in text
    assert "api_key_env: MY_KEY" in text


def test_nothing_is_overwritten_and_a_full_disk_leaves_nothing(config, tmp_path):
    (tmp_path / "eval.yaml").write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        convert(config)
    assert (tmp_path / "eval.yaml").read_text() == "mine"
    fs = FaultyFileSystem(RealFileSystem(), [InjectedFault("write", 1, errno.ENOSPC)])
    with pytest.raises(OSError, match="No space left"):
        convert(config, tmp_path / "new.yaml", fs)
    assert not (tmp_path / "new.yaml").exists()


@pytest.mark.parametrize("key", ["models", "datasets", "tasks", "runner_config", "concurrency_limit"])
@pytest.mark.parametrize("value", ["null", "7", "[1]", "x", "{a: 1}", "{a: [1]}", "{a: {b: {c: 1e999}}}"])
def test_hostile_configurations_are_refused_or_converted(tmp_path, key, value):
    path = tmp_path / "effective_config.yaml"
    lines = {
        "models": "{m: {name: x}}",
        "datasets": "{d: {class: D}}",
        "tasks": "{t: {class: T, dataset: d, model: m}}",
    }
    path.write_text("# by sieval\n" + "".join(f"{name}: {text}\n" for name, text in {**lines, key: value}.items()))
    if recognises(path):
        try:
            convert(path, tmp_path / "eval.yaml")
        except HoldfastError as refused:
            print(refused)
            assert not (tmp_path / "eval.yaml").exists()


def test_our_own_eval_files_are_not_taken_for_one(tmp_path):
    path = tmp_path / "eval.yaml"
    path.write_text("models: {m: scripted/echo}\ndatasets: {d: a.jsonl}\ntasks: {t: {dataset: d, scorers: [exact]}}\n")
    assert not recognises(path)


def test_the_words_of_sieval_are_understood(tmp_path, monkeypatch, capfdbinary):
    """`run --resume` is `--or-resume`; `--fresh` and `infer` get an answer."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"input": "x", "target": "x"}\n')
    head = "models: {m: scripted/echo}\ndatasets: {d: a.jsonl}\ntasks: {t: {dataset: d, scorers: [exact]}}\n"
    (tmp_path / "eval.yaml").write_text(head)
    for _ in range(2):
        assert call(capfdbinary, "run", "eval.yaml", "--run-dir", "r", "--resume").code == 0
    fresh = call(capfdbinary, "run", "eval.yaml", "--run-dir", "r", "--fresh")
    assert fresh.code == 2 and "--reuse" in fresh.err and len(fresh.err.splitlines()) == 1
    for place in ("", "runner: "):
        block = "concurrency_limits: {infer: 4, feedback: 2}"
        text = f"{head}{place}{'{' if place else ''}{block}{'}' if place else ''}\n"
        (tmp_path / "wrong.yaml").write_text(text)
        told = call(capfdbinary, "run", "wrong.yaml")
        assert "did you mean solve?" in told.err and "did you mean score?" in told.err


def test_an_address_with_a_password_is_not_carried_over(tmp_path):
    """It is named by the key that the configuration has."""
    path = tmp_path / "effective_config.yaml"
    path.write_text(CONFIG.replace("http://127.0.0.1:8000/v1", "http://me:hunter2@127.0.0.1:8000/v1"))
    converted = convert(path, tmp_path / "eval.yaml")
    assert "models.base_model.api_base" in {item.key for item in converted.not_carried}
    assert "hunter2" not in (tmp_path / "eval.yaml").read_text()
