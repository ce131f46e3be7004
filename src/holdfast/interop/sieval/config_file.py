"""`effective_config.yaml` of a SiEval session as an eval file: what means the same here, and a reason for the rest.

Nothing is guessed: a key that has no meaning here is named, with what to do about it. A literal key is never carried
over; the eval file names a variable to set. Classes of datasets and tasks are Python code of that package, so the eval
file has places to fill in where they were.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError, UsageError
from holdfast.interop.importing.foreign_values import UnreadableFile, map_of, read_regular_file
from holdfast.spec import resolve, typed_eval
from holdfast.spec.loading.key_detection import has_credentials
from holdfast.spec.loading.yaml_document import MAX_BYTES, read_document, write_document
from holdfast.storage import RealFileSystem
from holdfast.storage.filesystem import FileSystem, write_atomically

_TOOL = "SiEval"
_HEADER = re.compile(r"^#.*\bsieval\b", re.IGNORECASE | re.MULTILINE)
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
_NO_KEY = frozenset({"", "empty", "none", "null", "dummy", "not-needed"})
"""What people write where a server of their own wants no key."""
_GENERATION = (
    *("temperature", "top_p", "max_tokens", "stop", "seed", "logprobs", "top_logprobs"),
    *("presence_penalty", "frequency_penalty", "extra_body"),
)
_STAGES = {"infer": "solve", "feedback": "score"}
_OPERATIONS = ("shuffle", "slice", "filter", "repeat")
_ALWAYS = "everything is recorded, always"
_JOURNAL = "a run has one journal and no shards"
_RUNNER_REASONS = {
    "max_retries": "it counts how often a failed sample may be resumed there, and attempts within a session here",
    "max_iterations": "how often a trial asks is up to the task's code, or to its sampling",
    "auto_resume": "start with `holdfast run EVAL --run-dir DIR --or-resume`, which resumes what is there",
    "progress_log_pct_interval": "progress is logged by time; see log_interval",
    "dump_progress": "set progress_file to have one",
    "progress_dump_interval": "it is the progress_interval of a progress_file",
    **dict.fromkeys(("shard_samples", "shard_read_concurrency", "shard_write_concurrency"), _JOURNAL),
    **dict.fromkeys(("write_buffer_size", "write_buffer_flush_interval"), "every record is synced before it counts"),
    **dict.fromkeys(("record_each_stage", "record_type_metadata", "record_meta"), _ALWAYS),
    **dict.fromkeys(("profile_io", "profile_stages"), "there is no such profile"),
    "profile_usage": "usage is always recorded",
    **dict.fromkeys(("detect_anomalies", "detect_anomalies_on_resume"), "there is no such check"),
}
_RUNNER_NAMES = {"show_progress": "show_progress", "progress_log_interval": "log_interval"}


class NotCarried(msgspec.Struct, frozen=True):
    """A key that is not in the eval file, and why."""

    key: str
    reason: str


class ConvertedEval(msgspec.Struct, frozen=True):
    """An eval file that was written."""

    eval_file: str
    tool: str
    place: str
    not_carried: list[NotCarried]
    variables: list[str]
    """Those that have to be set to the keys, which are never carried over."""


def recognises(path: Path) -> bool:
    """Whether it is such a file, by its header or by keys that only such a file has."""
    try:
        text, data = _read(path)
    except (ConfigurationError, UnreadableFile):
        return False
    if not {"models", "tasks"} <= data.keys():
        return False
    classes = [
        map_of(entry).get("class") for name in ("datasets", "tasks") for entry in map_of(data.get(name)).values()
    ]
    return "runner_config" in data or any(classes) or _HEADER.search(text) is not None


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    if path.suffix not in {".yaml", ".yml"} or not path.is_file():
        raise UnreadableFile("it is not a YAML file")
    data = read_regular_file(path, MAX_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"it is not UTF-8 text (at byte {error.start})") from None
    return text, map_of(read_document(text, str(path)))


def convert(path: Path, output: Path | None = None, fs: FileSystem | None = None) -> ConvertedEval:
    """Writes an eval file, `eval.yaml` here by default.

    Raises:
        UsageError: there is a file of that name.
        ConfigurationError: the configuration cannot be understood.
        OSError: the file could not be written; none is left.
    """
    target = output or Path("eval.yaml")
    if os.path.lexists(target):
        raise UsageError(f"{target} exists.", hint="Choose another name with --output.")
    _, data = _read(path)
    conversion = _Conversion(data)
    content = conversion.eval_data()
    # Nothing is written that `holdfast run` would not load.
    resolve(typed_eval(content, str(path)), str(path))
    write_atomically(fs or RealFileSystem(), target, conversion.text(content, path).encode())
    return ConvertedEval(
        str(target), _TOOL, str(path.absolute()), conversion.not_carried, sorted(set(conversion.variables))
    )


class _Conversion:
    """One configuration."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self.not_carried: list[NotCarried] = []
        self.variables: list[str] = []
        self._derived: dict[str, Any] = {}

    def text(self, content: dict[str, Any], path: Path) -> str:
        """The eval file, with everything that it lacks in its header."""
        lines = [f"# Made by holdfast import from {path.name} of {_TOOL}.", "# Not carried over:"]
        lines += [f"#   {' '.join(f'{item.key}: {item.reason}'.split())}" for item in self.not_carried]
        return "\n".join([*lines, "", write_document(content)])

    def eval_data(self) -> dict[str, Any]:
        data = self._data
        runner = self._runner(data.get("runner_config"), "runner_config", _RUNNER_NAMES)
        if isinstance(data.get("concurrency_limit"), int):
            runner["concurrency_limit"] = data["concurrency_limit"]
        models = {str(name): self._model(str(name), map_of(one)) for name, one in _named_entries(data.get("models"))}
        datasets = {
            str(name): self._dataset(str(name), map_of(one)) for name, one in _named_entries(data.get("datasets"))
        }
        tasks = {str(name): self._task(str(name), map_of(one)) for name, one in _named_entries(data.get("tasks"))}
        self._leave("result_dir", "give `--run-dir` to `holdfast run`", data)
        self._leave("alignment", "there is no alignment of scores", data)
        known = ("result_dir", "alignment", "runner_config", "concurrency_limit", "models", "datasets", "tasks")
        self._leave_others("", data, [*known, "deterministic"])
        return {
            **({"deterministic": True} if data.get("deterministic") is True else {}),
            **({"runner": runner} if runner else {}),
            "models": {**models, **self._derived},
            "datasets": {name: one for name, one in datasets.items() if one},
            "tasks": tasks,
        }

    def _leave(self, key: str, reason: str, data: Mapping[str, Any], at: str = "") -> None:
        if data.get(key) is not None:
            self.not_carried.append(NotCarried(f"{at}{key}", reason))

    def _leave_others(self, at: str, data: Mapping[str, Any], known: list[str]) -> None:
        for key in data:
            if key not in known:
                self.not_carried.append(NotCarried(f"{at}{key}", "not known here"))

    def _runner(self, given: Any, at: str, names: Mapping[str, str]) -> dict[str, Any]:
        config, runner = map_of(given), dict[str, Any]()
        for key, value in config.items():
            if key == "concurrency_limits":
                runner[key] = self._stage_limits(map_of(value), f"{at}.{key}.")
            elif key in names and value is not None:
                runner[names[key]] = value
            elif value is not None:
                self.not_carried.append(NotCarried(f"{at}.{key}", _RUNNER_REASONS.get(key, "not known here")))
        return {key: value for key, value in runner.items() if value != {}}

    def _stage_limits(self, given: dict[str, Any], at: str) -> dict[str, Any]:
        for key in given.keys() - _STAGES.keys():
            self.not_carried.append(NotCarried(f"{at}{key}", "a trial has the stages solve and score"))
        return {_STAGES[key]: value for key, value in given.items() if key in _STAGES and value is not None}

    # Models.

    def _model(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        at = f"models.{name}."
        model: dict[str, Any] = {"base": given["base"]} if given.get("base") else {"provider": "openai"}
        if given.get("name"):
            model["model"] = given["name"]
        elif "base" not in given:
            model["model"] = name
        if isinstance(given.get("api_base"), str) and has_credentials(given["api_base"]):
            self._leave("api_base", "it has a password or a key in it; set base_url without", given, at)
        elif given.get("api_base"):
            model["base_url"] = given["api_base"]
        if variable := self._key_variable(name, given.get("api_key"), at):
            model["api_key_env"] = variable
        self._leave("infer", "start the server yourself, and set base_url to its address", given, at)
        self._leave("infer_meta", "as of infer", given, at)
        self._leave_others(at, given, ["name", "base", "api_base", "api_key", "args", "infer", "infer_meta"])
        return {**model, **self._model_arguments(map_of(given.get("args")), f"{at}args.")}

    def _key_variable(self, name: str, given: Any, at: str) -> str:
        """The variable that a model's key is read from; a literal key is left behind."""
        if not isinstance(given, str) or given.strip().lower() in _NO_KEY:
            return ""
        if match := _VARIABLE.fullmatch(given.strip()):
            return match[1] or match[2]
        variable = f"{re.sub(r'[^A-Z0-9]+', '_', name.upper()).strip('_') or 'MODEL'}_API_KEY"
        variable = variable if variable[0].isalpha() else f"KEY_{variable}"
        self.variables.append(variable)
        self.not_carried.append(NotCarried(f"{at}api_key", f"a key is not copied; set the variable {variable} to it"))
        return variable

    def _model_arguments(self, given: dict[str, Any], at: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if generation := {key: given[key] for key in _GENERATION if given.get(key) is not None}:
            found["generation"] = generation
        if given.get("concurrency_limit") is not None:
            found["concurrency_limit"] = given["concurrency_limit"]
        if given.get("timeout") is not None:
            found["timeouts"] = {"total": given["timeout"]}
        self._leave("max_retries", "calls that fail are retried until retry_deadline", given, at)
        self._leave_others(at, given, [*_GENERATION, "concurrency_limit", "timeout", "max_retries"])
        return found

    # Datasets and tasks.

    def _dataset(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        at = f"datasets.{name}."
        self._leave("class", "it is Python code of that package; path has to be a JSONL, JSON or CSV file", given, at)
        self._leave("args", "they belong to the class", given, at)
        self._leave_others(at, given, ["class", "args", "path", "operations"])
        path = self._expanded(given.get("path"), f"{at}path") or f"{name}.jsonl"
        operations = list(self._operations(given.get("operations"), f"{at}operations"))
        return {"path": path, "format": "jsonl", **({"operations": operations} if operations else {})}

    def _expanded(self, given: Any, at: str) -> str:
        if not isinstance(given, str):
            return ""
        missing = [name for found in _VARIABLE.findall(given) for name in found if name and name not in os.environ]
        if missing:
            self.not_carried.append(NotCarried(at, f"the variable {missing[0]} is not set here; write the path out"))
            return ""
        return os.path.expandvars(given)

    def _operations(self, given: Any, at: str) -> Iterator[dict[str, Any]]:
        for place, operation in enumerate(given if isinstance(given, list) else []):
            for key, value in map_of(operation).items():
                if key in _OPERATIONS:
                    yield {key: value}
                else:
                    self.not_carried.append(NotCarried(f"{at}[{place}].{key}", "there is no such operation here"))

    def _task(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        at = f"tasks.{name}."
        self._leave("class", "it is Python code of that package: give prompt, target and scorers", given, at)
        arguments = map_of(given.get("args"))
        for key in arguments:
            advice = f"; for {arguments[key]} draws of each sample, set epochs" if key == "n" else ""
            self.not_carried.append(NotCarried(f"{at}args.{key}", f"it belongs to the class{advice}"))
        self._leave_others(at, given, ["class", "args", "dataset", "model", "infer_args", "runner_config"])
        runner = self._runner(given.get("runner_config"), f"{at}runner_config", {})
        model = self._task_model(name, given, at)
        return {
            **({"dataset": given["dataset"]} if given.get("dataset") else {}),
            **({"models": [model]} if model else {}),
            # A task needs a scorer; this one is a place to fill in.
            "scorers": ["exact"],
            **({"runner": runner} if runner else {}),
        }

    def _task_model(self, name: str, given: dict[str, Any], at: str) -> str:
        """The model of a task; one with other settings is derived from it."""
        model = given["model"] if isinstance(given.get("model"), str) else ""
        if not (settings := map_of(given.get("infer_args"))) or not model:
            return model
        generation = {key: value for key, value in settings.items() if key in _GENERATION and value is not None}
        self._leave_others(f"{at}infer_args.", settings, list(_GENERATION))
        self._derived[f"{model}-{name}"] = {"base": model, "generation": generation}
        return f"{model}-{name}"


def _named_entries(value: Any) -> list[tuple[Any, Any]]:
    return list(map_of(value).items())
