"""One eval, its dataset and its run: changed by a test, offered to the gate, looked at afterwards."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from cli_calls import Told, call
from durable import snapshot
from holdfast.engine.opening.new_run import start_run
from holdfast.spec import load_eval, resolve

MODEL = {"provider": "scripted", "model": "echo"}
TASK = {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}
EVAL: dict[str, Any] = {
    "name": "gate",
    "models": {"m": MODEL},
    "datasets": {"rows": {"path": "rows.jsonl"}},
    "tasks": {"t": TASK},
}
Rows = list[dict[str, Any]]


def make_rows(count: int, *, ids: bool = True) -> Rows:
    """Questions q1 to qN; the scripted model repeats the question, which is right for all but every third."""
    rows = [
        {"id": f"s{number}", "question": f"q{number}", "answer": "no" if number % 3 == 0 else f"q{number}"}
        for number in range(1, count + 1)
    ]
    return rows if ids else [{name: row[name] for name in ("question", "answer")} for row in rows]


class World:
    """A directory with `eval.yaml`, `rows.jsonl` and the run `r`."""

    def __init__(self, directory: Path, capture: Any) -> None:
        self.directory, self._capture = directory, capture
        self.run_dir = directory / "r"
        self.data = copy.deepcopy(EVAL)
        self.rows = make_rows(4)

    @property
    def task(self) -> dict[str, Any]:
        return self.data["tasks"]["t"]

    @property
    def model(self) -> dict[str, Any]:
        return self.data["models"]["m"]

    # What a person writes.

    def write(self, data: Any = None) -> Path:
        """The eval file and the dataset, as they are now."""
        self.write_rows()
        path = self.directory / "eval.yaml"
        text = data if isinstance(data, str) else json.dumps(self.data if data is None else data, indent=1)
        path.write_text(text)
        return path

    def write_rows(self, rows: Rows | None = None) -> None:
        self.rows = self.rows if rows is None else rows
        (self.directory / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in self.rows))

    # What a person does.

    def __call__(self, *words: object, code: int | None = None) -> Told:
        """The command line, in this process."""
        told = call(self._capture, *words)
        assert code is None or told.code == code, told
        assert "Traceback" not in told.err
        return told

    def json(self, *words: object, code: int | None = None) -> Any:
        return json.loads(self(*words, "--json", code=code).out)

    def begin(self) -> None:
        """A run of the eval that died before its first trial."""
        spec = resolve(load_eval(self.write()), "eval.yaml")
        start_run(spec, self.run_dir, source="eval.yaml").session.abandon()

    def run(self, *words: object, code: int = 0) -> Told:
        """A run of the eval, to its end."""
        return self("run", self.write(), "--run-dir", "r", *words, code=code)

    def resume(self, *words: object, code: int | None = None) -> Told:
        """A resume with the eval file as it is now."""
        return self("resume", "r", "--config", self.write(), *words, code=code)

    def refused(self, *words: object, given: bool = True) -> str:
        """A resume that is refused and leaves every file as it was; what it said."""
        before = self.everything()
        told = self.resume(*words, code=3) if given else self("resume", "r", *words, code=3)
        assert self.everything() == before
        assert "Resume aborted: " in told.err and told.out == ""
        return told.err

    # What is there afterwards.

    def everything(self) -> dict[str, Any]:
        """Every file of the run, byte for byte, and when it was last written."""
        times = {str(path): path.stat().st_mtime_ns for path in self.run_dir.rglob("*") if path.is_file()}
        return {**snapshot(self.run_dir), "times": times, "beside": sorted(path.name for path in self.hidden())}

    def hidden(self) -> list[Path]:
        return list(self.directory.glob(".r.*"))

    @property
    def config(self) -> str:
        return (self.run_dir / "config.yaml").read_text()

    @property
    def header(self) -> list[str]:
        """The comment lines that config.yaml begins with."""
        lines = self.config.splitlines()
        return lines[: lines.index("")]

    @property
    def entries(self) -> list[str]:
        """The changes that the header tells, without their dash."""
        return [line.removeprefix("#   - ") for line in self.header if line.startswith("#   - ")]

    @property
    def body(self) -> dict[str, Any]:
        from holdfast.spec.loading.yaml_document import read_document  # noqa: PLC0415 - as in the program

        found: dict[str, Any] = read_document(self.config, "config.yaml")
        return found

    def records(self, type_: str, run: str = "r") -> list[dict[str, Any]]:
        lines = self("cat", run, code=0).out.splitlines()
        return [record for record in map(json.loads, lines) if record["type"] == type_]

    def trials(self) -> list[dict[str, Any]]:
        return self.records("trial")

    def status(self) -> Any:
        return self.json("status", "r", code=0)

    def report(self) -> Any:
        return self.json("report", "r", code=0)

    def check_complete(self, planned: int, *, calls: int | None = None) -> None:
        """Everything planned is finished once, nothing was called more often than that, and the run is sound."""
        status = self.status()
        assert (status["state"], status["planned"], status["finished"]) == ("complete", planned, planned)
        # A call that was in flight at a kill is made again.
        again = status["calls"]["repeated"]["interrupted"] if calls is None else 0
        assert status["calls"]["made"] - again == (planned if calls is None else calls)
        keys = [trial["trial"] for trial in self.trials()]
        assert len(keys) == len(set(keys)) == planned
        report = self.report()
        assert report["complete"] and report["coverage"]["valid"] == report["coverage"]["planned"] == planned
        assert self.json("verify", "r", code=0)["ok"]
