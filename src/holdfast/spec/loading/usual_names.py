"""Keys that people know from other eval files, and the keys that mean the same here."""

from __future__ import annotations

_PLACES: dict[str, tuple[str, ...]] = {
    "datasets": ("test_cases", "tests"),
    "datasets.NAME.fields": ("columns", "field_spec"),
    "datasets.NAME.path": ("data_files", "dataset_name", "dataset_path", "test_split"),
    "models": ("llm", "llms", "providers"),
    "models.NAME.api_key_env": ("api_key_var", "env_key"),
    "models.NAME.base_url": ("api_base", "endpoint", "url"),
    "models.NAME.concurrency_limit": ("max_connections",),
    "models.NAME.generation": ("gen_kwargs", "generation_kwargs", "model_args", "sampling_params"),
    "models.NAME.timeouts": ("timeout", "timeout_seconds"),
    "runner.concurrency_limits.score": ("feedback",),
    "runner.concurrency_limits.solve": ("infer",),
    "tasks": ("benchmarks", "evals"),
    "tasks.NAME.choices": ("doc_to_choice",),
    "tasks.NAME.epochs": ("n_samples", "repeats", "trials"),
    "tasks.NAME.few_shot": ("fewshot", "fewshot_examples", "num_fewshot"),
    "tasks.NAME.prompt": ("doc_to_text", "prompt_template", "prompts", "question", "template"),
    "tasks.NAME.scorers": ("assert", "asserts", "metric", "metric_list", "metrics", "scorer", "scoring"),
    "tasks.NAME.system": ("description_prompt", "system_message", "system_prompt"),
    "tasks.NAME.target": ("answer", "doc_to_target", "expected", "ideal"),
}
_BY_NAME = {name: place for place, names in _PLACES.items() for name in names}


def usual_place(name: str) -> str:
    """The place (`tasks.NAME.prompt`) of the key that is meant by a name which is usual elsewhere; empty if none is."""
    return _BY_NAME.get(name.casefold(), "")
