"""The command line of a real agent, Codex, in workspaces of ours: run to its end, and killed with -9 and resumed.

Everything happens in a network namespace that has nothing but a loopback device, so no traffic leaves the machine. The
model is a server of our own. Usage: `python interop_tests/codex DIRECTORY`, where npm has installed @openai/codex.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parent))

from responses_server import ResponsesServer

WORDS = ["w0", "w1", "w2", "w3", "w4", "w5"]
INSIDE = "HOLDFAST_INTEROP_NAMESPACE"
PATIENCE = 300.0


def main() -> int:
    codex = Path(sys.argv[1] if len(sys.argv) > 1 else ".npm-codex").absolute() / "node_modules" / ".bin" / "codex"
    if missing := [tool for tool in ("unshare", "ip", "node", "git") if shutil.which(tool) is None]:
        return skip(f"{', '.join(missing)} is not installed")
    if not codex.exists():
        return skip(f"{codex} does not exist; npm could not install it")
    if os.environ.get(INSIDE):
        return inside(codex)
    for options in (["--net"], ["--map-root-user", "--net"]):
        if subprocess.run(["unshare", *options, "true"], capture_output=True, check=False).returncode == 0:
            script = 'ip link set lo up && exec "$@"'
            command = ["unshare", *options, "sh", "-c", script, "sh", sys.executable, *sys.argv]
            return subprocess.run(command, env={**os.environ, INSIDE: "1"}, check=False).returncode
    return skip("this user may not make a network namespace")


def skip(why: str) -> int:
    print(f"Codex: skipped, because {why}.")
    return 0


def inside(codex: Path) -> int:
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout.splitlines()
    check("the only network device is the loopback", [line.split(": ")[1] for line in links] == ["lo"])
    version = subprocess.run([codex, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{version}, {len(WORDS)} trials in a git repository")
    for case in (complete, killed):
        with tempfile.TemporaryDirectory(prefix="holdfast-codex-") as place:
            case(codex, Path(place))
    return 0


def check(what: str, is_so: object) -> None:
    print(f"{'ok' if is_so else 'WRONG'}  {what}", flush=True)
    if not is_so:
        raise SystemExit(1)


# The two cases.


def complete(codex: Path, place: Path) -> None:
    """Run to its end."""
    server = ResponsesServer()
    ended = start(place, write_eval(codex, place, server)).wait(PATIENCE)
    check("the eval completes", (ended, status(place)["valid"]) == (0, len(WORDS)))
    check_results(place, server)
    check("each agent is started once", set(server.conversations().values()) == {1})


def killed(codex: Path, place: Path) -> None:
    """Killed with -9 while some agents work and others have finished, and resumed."""
    server = ResponsesServer()
    server.seconds = 2.0
    eval_ = write_eval(codex, place, server)
    process = start(place, eval_)
    wait_for(lambda: status(place)["valid"] >= 2 and len(server.waiting) >= 2, "some have finished, others work")
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE)
    before, finished = server.conversations(), finished_words(place)
    cut_off = before.keys() - finished
    wait_for(lambda: not processes_below(place), "no process is left over")
    check("no process is left over", processes_below(place) == [])
    numbers = f"{len(finished)} are finished at the kill, {len(cut_off)} are working"
    check(numbers, len(finished) >= 2 and len(cut_off) >= 1)
    server.seconds = 0.0
    ended = start(place, eval_).wait(PATIENCE)
    check("the resumed eval completes", (ended, status(place)["valid"]) == (0, len(WORDS)))
    after = server.conversations()
    again = {word for word in before if after[word] > before[word]}
    check("each agent is paid once, but for those that worked at the kill", again <= cut_off)
    resumed = {server.threads[thread] for thread in server.resumed}
    check(f"sessions of the agent continue: {len(resumed)} of {len(cut_off)}", resumed and resumed <= cut_off)
    check("a session that continues is not started again", not resumed & again)
    check_results(place, server)


def check_results(place: Path, server: ResponsesServer) -> None:
    report = json.loads(holdfast(place, "report", "r", "--json"))
    usage = report["usage"]["input_tokens"], report["usage"]["output_tokens"]
    check(f"the tokens of the report are those of the server: {usage}", usage == server.tokens())
    accuracy = report["tasks"]["write"]["codex"]["metrics"]["checks"]["mean"]["value"]
    check("every workspace has what its agent was to write", accuracy == 1.0)
    left = [path.name for path in (place / "r" / "workspaces").iterdir() if not path.name.startswith(".")]
    check("no workspace and no process is left over", (left, processes_below(place)) == ([], []))


# The eval.


def write_eval(codex: Path, place: Path, server: ResponsesServer) -> Path:
    repository = place / "repository"
    repository.mkdir()
    (repository / "README").write_text("nothing yet\n", encoding="utf-8")
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=repository, check=True, capture_output=True)
    provider = f'{{name="own",base_url="{server.address}",env_key="OWN_KEY",wire_api="responses"}}'
    settings = ["model_provider=own", "model={model}", f"model_providers.own={provider}", "analytics.enabled=false"]
    settings.append("check_for_update_on_startup=false")
    options = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    options += [part for setting in settings for part in ("-c", setting)]
    rows = [{"id": word, "word": word} for word in WORDS]
    (place / "words.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    agent = {
        "command": [str(codex), "exec", *options, "{prompt}"],
        "resume_command": [str(codex), "exec", "resume", "{session}", *options, "Continue."],
        "output": "stream-json",
        "env": ["OWN_KEY"],
    }
    task = {
        "dataset": "words",
        "prompt": "Write the word {word} to made.txt.",
        "agent": agent,
        "workspace": {"repo": "repository", "checks": ["grep -q '^w[0-9]$' made.txt"]},
        "scorers": ["checks"],
    }
    eval_ = {
        "name": "codex",
        "models": {"codex": {"provider": "command", "model": "own-model"}},
        "datasets": {"words": {"path": "words.jsonl"}},
        "tasks": {"write": task},
        "concurrency_limits": {"solve": 2},
    }
    path = place / "eval.yaml"
    path.write_text(yaml.safe_dump(eval_), encoding="utf-8")
    return path


def start(place: Path, eval_: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "holdfast", "run", str(eval_), "--run-dir", "r", "--or-resume"]
    with (place / "log").open("ab") as log:
        environment = {**os.environ, "OWN_KEY": "sk-own-0123456789"}
        return subprocess.Popen(command, cwd=place, env=environment, stdout=log, stderr=log, start_new_session=True)


def holdfast(place: Path, *words: str) -> str:
    command = [sys.executable, "-m", "holdfast", *words]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=True).stdout


def status(place: Path) -> dict[str, int]:
    if not (place / "r").is_dir():
        return {"valid": 0}
    found: dict[str, int] = json.loads(holdfast(place, "status", "r", "--json"))
    return found


def finished_words(place: Path) -> set[str]:
    trials = json.loads(holdfast(place, "show", "r", "--where", "status=valid", "--json"))["trials"]
    return {trial["sample"] for trial in trials}


def processes_below(place: Path) -> list[str]:
    """The processes that work below a directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_below = str((entry / "cwd").readlink()).startswith(f"{place}/r/")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if is_below and state != "Z":
            found.append(entry.name)
    return found


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            check(what, is_so=False)
        time.sleep(0.05)


if __name__ == "__main__":
    raise SystemExit(main())
