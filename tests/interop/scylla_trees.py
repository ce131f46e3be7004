"""Experiments of ProjectScylla as they lie on disk, sound and otherwise."""

from __future__ import annotations

import json

TIERS = {"T0": 149, "T1": 45, "T2": 102, "T3": 229, "T4": 65}
JUDGES = ("claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5")


def result(run: int, *, passed: bool = True, **more) -> dict:
    """The content of a run_result.json."""
    score = 0.8 if passed else 0.25
    criteria = {name: {"score": score, "explanation": f"{name}: fine"} for name in ("functional", "code_quality")}
    judges = [
        {
            "model": model,
            "score": score,
            "passed": passed,
            "grade": "B",
            "reasoning": f"{model} says so",
            "judge_number": number,
            "is_valid": True,
            "criteria_scores": criteria,
        }
        for number, model in enumerate(JUDGES, 1)
    ]
    content = {
        "run_number": run,
        "exit_code": 0,
        "token_stats": {"input_tokens": 1000, "output_tokens": 50, "cache_read_tokens": 7},
        "tokens_input": 1000,
        "tokens_output": 50,
        "cost_usd": 0.0125,
        "duration_seconds": 12.5,
        "agent_duration_seconds": 10.0,
        "judge_duration_seconds": 2.5,
        "judge_score": score,
        "judge_passed": passed,
        "judge_grade": "B",
        "judge_reasoning": "by majority",
        "judges": judges,
        "workspace_path": "/evals/space",
        "logs_path": "/evals/logs",
        "command_log_path": "/evals/commands",
        "criteria_scores": criteria,
    }
    return {**content, **more}


def write_result(root, tier: str, subtest: str, run: int, content) -> object:
    """Writes one result; a text or bytes as they are. Its path."""
    directory = root / tier / subtest / f"run_{run:02}"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "run_result.json"
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(data)
    return path


def write_tree(root, tiers=TIERS, completed=None):
    """A tree whose checkpoint says that nothing is finished; its root."""
    for tier, count in tiers.items():
        for number in range(count):
            subtest, run = divmod(number, 10)
            write_result(root, tier, f"{subtest:02}", run + 1, result(run + 1, passed=number % 3 > 0))
    (root / "config").mkdir(parents=True)
    experiment = {"experiment_id": "exp-1", "task_repo": "repo", "task_commit": "abc", "models": ["agent-model"]}
    (root / "config" / "experiment.json").write_text(json.dumps(experiment))
    write_checkpoint(root, completed or {})
    return root


def write_checkpoint(root, completed) -> None:
    """A checkpoint, of a tree that lay elsewhere, with a field that nobody knows."""
    content = {
        "version": "2.0",
        "experiment_id": "exp-1",
        "experiment_dir": "/gone/exp-1",
        "config_hash": "c0ffee",
        "completed_runs": completed,
        "started_at": "2025-01-01T00:00:00+00:00",
        "last_updated_at": "2025-01-02T00:00:00+00:00",
        "status": "interrupted",
        "rate_limit_source": None,
        "rate_limit_until": None,
        "pause_count": 3,
        "pid": 4711,
        "later": {"deep": [1, 2.5, None, 123456789012345678901234567890]},
    }
    (root / "checkpoint.json").write_text(json.dumps(content, indent=4) + "\n")


def spoil(root) -> dict[str, str]:
    """Adds files that cannot count; by place, a word of the reason."""
    whole = json.dumps(result(1)).encode()
    write_result(root, "T0", "90", 1, b"")
    write_result(root, "T0", "90", 2, whole[: len(whole) // 2])
    write_result(root, "T0", "90", 3, b"\xff\xfe not text")
    write_result(root, "T0", "90", 4, [1, 2, 3])
    write_result(root, "T0", "90", 5, b"[" * 100_000)
    write_result(root, "T0", "90", 6, result(99))
    (root / "T1" / "90" / "run_1").mkdir(parents=True)
    (root / "T1" / "90" / "run_1" / "run_result.json").write_text(json.dumps(result(1, passed=False)))
    write_result(root, "T1", "90", 1, result(1))
    (root / "T1" / "91" / "run_01").mkdir(parents=True)
    (root / "T1" / "91" / "run_01" / "run_result.json").symlink_to("/etc/hostname")
    (root / "T1" / "91" / "run_02").mkdir()
    (root / "T1" / "91" / "run_02" / "run_result.json").mkdir()
    return {
        "T0/90/run_01": "empty",
        "T0/90/run_02": "not valid JSON, or it is incomplete",
        "T0/90/run_03": "not UTF-8",
        "T0/90/run_04": "not a JSON object",
        "T0/90/run_05": "nested too deeply",
        "T0/90/run_06": "run 99",
        "T1/90/run_1": "second result of the same run",
        "T1/91/run_01": "leads out of the experiment",
        "T1/91/run_02": "not a file",
    }
