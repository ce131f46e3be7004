"""Agents in workspaces, as a person runs them: experiments 2, 3, 5, 8, 22, 23 and 24."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from agents.agent_evals import agent_eval, git, left_in, make_repository, make_template, processes_below

WORKS = """
prompt = Path(sys.argv[1]).read_text()
Path("out.txt").write_text(prompt)
Path("main.py").write_text("print('two')\\n")
print("done")
"""


def answer(holdfast, run="r"):
    return holdfast.records(run, "answer")[-1]


def test_a_directory_is_copied_for_each_trial_and_removed_after_success(holdfast, tmp_path):
    """Experiments 2: the template is left as it is; the patch, outputs and a replay script are kept."""
    template = make_template(tmp_path)
    before = {path: path.read_bytes() for path in template.rglob("*") if path.is_file()}
    eval_ = agent_eval(tmp_path, WORKS, samples=3, workspace={"checks": ["test -f out.txt"]}, scorers=["checks"])
    holdfast("run", eval_, "--run-dir", "r", code=0)
    assert left_in(tmp_path / "r") == []
    assert {path: path.read_bytes() for path in template.rglob("*") if path.is_file()} == before
    assert holdfast.json("status", "r")["valid"] == 3
    value = answer(holdfast)["value"]
    assert [file["path"] for file in value["changed_files"]] == ["main.py", "out.txt"]
    kept = {path.name for path in (tmp_path / "r" / "artifacts").glob("*/*")}
    assert {"stdout", "stderr", "diff.patch", "replay.sh", "prompt.txt", "check-1.txt"} <= kept


def test_a_repository_is_checked_out_at_its_commit_and_never_changed(holdfast, tmp_path):
    """Experiments 2: each trial has a repository of its own; what one commits, no other sees."""
    repository = make_repository(tmp_path)
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "main.py").write_text("print('later')\n")
    git(repository, "commit", "-qam", "later")
    before = git(repository, "for-each-ref"), git(repository, "worktree", "list"), git(repository, "status", "-s")
    script = """
import subprocess
def git(*a): return subprocess.run(["git", *a], check=True, capture_output=True, text=True).stdout.strip()
Path("out.txt").write_text(Path("main.py").read_text())
git("add", "-A"); git("commit", "-qm", "mine"); git("branch", "solution-" + str(os.getpid()))
print("done", git("log", "--format=%s"), len(git("branch", "--list", "solution-*").split()))
"""
    workspace = {"repo": "template", "commit": commit, "keep": "always"}
    eval_ = agent_eval(tmp_path, script, samples=2, workspace=workspace, concurrency_limit=1)
    holdfast("run", eval_, "--run-dir", "r", code=0)
    assert [record["text"] for record in holdfast.records("r", "answer")] == ["done mine\none 1"] * 2
    assert "print('one')" in answer(holdfast)["value"]["diff"]
    assert (
        git(repository, "for-each-ref"),
        git(repository, "worktree", "list"),
        git(repository, "status", "-s"),
    ) == before
    assert len(left_in(tmp_path / "r")) == 2


def test_the_patch_can_be_applied(holdfast, tmp_path):
    template = make_template(tmp_path)
    holdfast(
        "run",
        agent_eval(tmp_path, WORKS + "os.remove('docs/a.txt')\nPath('b.bin').write_bytes(bytes(range(256)))"),
        "--run-dir",
        "r",
        code=0,
    )
    (patch,) = (tmp_path / "r" / "artifacts").glob("*/diff.patch")
    subprocess.run(["git", "apply", "-p1", str(patch)], cwd=template, check=True)
    assert (template / "main.py").read_text() == "print('two')\n"
    assert (template / "b.bin").read_bytes() == bytes(range(256))
    assert not (template / "docs" / "a.txt").exists()


def test_the_patch_of_a_workspace_with_other_repositories_in_it_can_be_applied(holdfast, tmp_path):
    """Git refuses a patch with a path in `.git`: their files are in it, and their own data are not."""
    template = make_template(tmp_path, {"main.py": "x\n", "old/.git": "gitdir: elsewhere\n"})
    script = (
        "import subprocess\nsubprocess.run(['git', 'init', '-q', 'a/sub'], check=True)\n"
        "Path('a/sub/new').write_text('n')\nPath('b').mkdir()\nPath('b/.git').write_text('gitdir: x')\n"
        "Path('c').mkdir()\nPath('c/.GIT').write_text('x')\nPath('old/.git').unlink()\nprint('done')"
    )
    holdfast("run", agent_eval(tmp_path, script), "--run-dir", "r", code=0)
    (patch,) = (tmp_path / "r" / "artifacts").glob("*/diff.patch")
    subprocess.run(["git", "apply", "-p1", str(patch)], cwd=template, check=True)
    assert (template / "a" / "sub" / "new").read_text() == "n"
    assert [one["path"] for one in answer(holdfast)["value"]["changed_files"]] == ["a/sub/new"]


def test_the_environment_is_clean_and_a_key_in_it_is_never_written(holdfast, tmp_path):
    """Experiments 3."""
    make_template(tmp_path)
    script = """
Path("leak.txt").write_text(os.environ["SOME_API_KEY"])
print(sorted(os.environ)); print(os.environ["SOME_API_KEY"]); sys.stderr.write(os.environ["SOME_API_KEY"])
print("done")
"""
    eval_ = agent_eval(tmp_path, script, agent={"env": ["SOME_API_KEY"]})
    key = "sk-verysecret-0123456789"
    holdfast("run", eval_, "--run-dir", "r", code=0, SOME_API_KEY=key, OTHER_THING="other")
    text = answer(holdfast)["text"]
    assert "['HOLDFAST_AGENT', 'HOME', 'LANG', 'PATH', 'SOME_API_KEY', 'TMPDIR']" in text.replace("'LC_CTYPE', ", "")
    assert "[SOME_API_KEY]" in text
    assert "[SOME_API_KEY]" in answer(holdfast)["value"]["diff"]
    found = subprocess.run(["grep", "-rl", key, "r"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.stdout == ""
    (replay,) = (tmp_path / "r" / "artifacts").glob("*/replay.sh")
    assert "SOME_API_KEY" in replay.read_text()


def test_placeholders_are_filled_in_once(holdfast, tmp_path):
    make_template(tmp_path)
    script = "print('done', json.dumps(sys.argv[1:]), os.getcwd() == sys.argv[3])"
    command = [
        sys.executable,
        str(tmp_path / "agent.py"),
        "{prompt}",
        "{model}",
        "{workspace}",
        "{unknown}",
        "{output}",
    ]
    eval_ = agent_eval(tmp_path, script, agent={"command": command}, task={"prompt": "Say {{model}} {word}."})
    holdfast("run", eval_, "--run-dir", "r", code=0)
    said, _, same = answer(holdfast)["text"].removeprefix("done ").rpartition(" ")
    prompt, model, workspace, unknown, _ = json.loads(said)
    assert (prompt, model, unknown, same) == ("Say {model} w0.", "tiny", "{unknown}", "True")
    assert workspace.endswith("/work")


def test_a_prompt_in_a_shell_command_is_one_word(holdfast, tmp_path):
    make_template(tmp_path)
    eval_ = agent_eval(
        tmp_path, "", agent={"command": "printf 'done %s' {prompt}"}, task={"prompt": "$(touch pwned); `x` 'y' {word}"}
    )
    holdfast("run", eval_, "--run-dir", "r", code=0)
    assert answer(holdfast)["text"] == "done $(touch pwned); `x` 'y' w0"
    assert answer(holdfast)["value"].get("changed", 0) == 0


def test_an_exit_code_that_is_no_success_fails_the_attempt_and_is_never_scored(holdfast, tmp_path):
    """Experiments 8, 24: work was done, so it is the task's own error."""
    make_template(tmp_path)
    eval_ = agent_eval(tmp_path, "Path('x').touch(); print('done'); sys.exit(3)", runner={"max_retries": 1})
    holdfast("run", eval_, "--run-dir", "r", code=1)
    trials = holdfast.records("r", "trial")
    assert [trial["status"] for trial in trials] == ["failed", "failed"]
    assert "exit code 3" in trials[-1]["error"]["message"]
    assert holdfast.records("r", "score") == []
    assert len(left_in(tmp_path / "r")) == 1


def test_other_exit_codes_may_be_success(holdfast, tmp_path):
    make_template(tmp_path)
    holdfast(
        "run",
        agent_eval(tmp_path, "print('done'); sys.exit(3)", agent={"exit_codes": [0, 3]}),
        "--run-dir",
        "r",
        code=0,
    )
    assert answer(holdfast)["value"]["ended"]["exit_code"] == 3


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(1)"])
def test_an_agent_that_dies_or_does_nothing_is_started_again_and_then_left_unfinished(holdfast, tmp_path, end):
    """Experiments 8: infrastructure, bounded, never judged; the same attempt continues on resume."""
    make_template(tmp_path)
    count = tmp_path / "count"
    script = f"""
n = int(Path({str(count)!r}).read_text()) + 1 if Path({str(count)!r}).exists() else 1
Path({str(count)!r}).write_text(str(n))
if n <= 4: {end}
print("done", n)
"""
    eval_ = agent_eval(tmp_path, script, agent={"tries": 3})
    holdfast("run", eval_, "--run-dir", "r", code=1)
    assert count.read_text() == "3"
    status = holdfast.json("status", "r")
    assert (status["unfinished"], status["failed"]) == (1, 0)
    assert holdfast.records("r", "score") == []
    holdfast("resume", "r", code=0)
    assert (answer(holdfast)["text"], answer(holdfast)["attempt"]) == ("done 5", 1)


def test_a_crash_in_the_middle_of_the_work_starts_again_in_a_new_workspace(holdfast, tmp_path):
    """Experiments 8."""
    make_template(tmp_path)
    script = f"""
first = not Path({str(tmp_path / "seen")!r}).exists()
Path({str(tmp_path / "seen")!r}).touch()
assert not Path("half").exists()
Path("half" if first else "whole").touch()
if first: os.kill(os.getpid(), signal.SIGSEGV)
print("done")
"""
    holdfast("run", agent_eval(tmp_path, script), "--run-dir", "r", code=0)
    assert [file["path"] for file in answer(holdfast)["value"]["changed_files"]] == ["whole"]


def test_a_time_limit_ends_the_agent_and_the_trial_is_limited(holdfast, tmp_path):
    """Experiments 3, 24."""
    make_template(tmp_path)
    script = "import subprocess; subprocess.Popen(['sleep', '300'], start_new_session=True); time.sleep(300)"
    holdfast(
        "run",
        agent_eval(tmp_path, script, task={"limits": {"time": 1}}, agent={"grace": 0.2}),
        "--run-dir",
        "r",
        code=0,
    )
    (trial,) = holdfast.records("r", "trial")
    assert (trial["status"], trial["limit"]) == ("limited", "time")
    assert processes_below(tmp_path) == []
    assert left_in(tmp_path / "r") == []


def test_an_agent_beyond_its_memory_fails_with_that_cause(holdfast, tmp_path):
    """Experiments 24."""
    make_template(tmp_path)
    script = "x = bytearray(400 << 20); x[::4096] = x[::4096]; time.sleep(100)"
    eval_ = agent_eval(tmp_path, script, agent={"limits": {"memory": 100 << 20}}, runner={"max_retries": 0})
    holdfast("run", eval_, "--run-dir", "r", code=1)
    assert "its limit of memory" in holdfast.records("r", "trial")[-1]["error"]["message"]


def test_a_setup_that_fails_leaves_nothing(holdfast, tmp_path):
    """Experiments 23."""
    make_template(tmp_path)
    workspace = {"setup": "touch made; (setsid sleep 300 &); sleep 0.3; echo no such package >&2; exit 4"}
    holdfast(
        "run", agent_eval(tmp_path, WORKS, workspace=workspace, runner={"max_retries": 0}), "--run-dir", "r", code=1
    )
    assert "no such package" in holdfast.records("r", "trial")[-1]["error"]["message"]
    assert left_in(tmp_path / "r") == []
    assert processes_below(tmp_path) == []
    assert holdfast.records("r", "call") == []


def test_what_the_setup_makes_is_not_the_agents_work(holdfast, tmp_path):
    make_template(tmp_path)
    eval_ = agent_eval(tmp_path, WORKS, workspace={"setup": "mkdir deps; touch deps/a deps/b"})
    holdfast("run", eval_, "--run-dir", "r", code=0)
    assert [file["path"] for file in answer(holdfast)["value"]["changed_files"]] == ["main.py", "out.txt"]


def test_links_out_of_the_workspace_are_recorded_and_never_followed(holdfast, tmp_path):
    """Experiments 22."""
    make_template(tmp_path, {"main.py": "x\n", "docs/a.txt": "a\n"})
    (tmp_path / "secret.txt").write_text("the secret of the host\n")
    (tmp_path / "template" / "link").symlink_to(tmp_path / "secret.txt")
    script = f"""
import shutil
shutil.rmtree("docs"); os.symlink({str(tmp_path)!r}, "docs")
os.symlink({str(tmp_path / "secret.txt")!r}, "other")
os.remove("main.py"); os.symlink("/etc/passwd", "main.py")
print("done")
"""
    holdfast("run", agent_eval(tmp_path, script), "--run-dir", "r", code=0)
    value = answer(holdfast)["value"]
    links = {file["path"]: file.get("target") for file in value["changed_files"] if file.get("kind") == "link"}
    assert links == {"docs": str(tmp_path), "other": str(tmp_path / "secret.txt"), "main.py": "/etc/passwd"}
    assert "the secret of the host" not in json.dumps(value)
    assert "root:" not in value["diff"]


@pytest.mark.parametrize("keep", ["never", "failed", "always"])
def test_workspaces_are_kept_by_policy(holdfast, tmp_path, keep):
    """Experiments 2."""
    make_template(tmp_path)
    script = "print('done'); sys.exit('w1' in Path(sys.argv[1]).read_text() and 7 or 0)"
    eval_ = agent_eval(tmp_path, script, samples=2, workspace={"keep": keep}, runner={"max_retries": 0})
    holdfast("run", eval_, "--run-dir", "r", code=1)
    assert len(left_in(tmp_path / "r")) == {"never": 0, "failed": 1, "always": 2}[keep]


def test_agents_run_up_to_their_own_limit(holdfast, tmp_path):
    """Experiments 20."""
    make_template(tmp_path)
    place = tmp_path / "running"
    place.mkdir()
    script = f"""
mine = Path({str(place)!r}, str(os.getpid())); mine.touch()
time.sleep(0.3)
most = len(list(Path({str(place)!r}).iterdir()))
mine.unlink()
print("done", most)
"""
    eval_ = agent_eval(tmp_path, script, samples=5, runner={"concurrency_limits": {"solve": 2}})
    holdfast("run", eval_, "--run-dir", "r", code=0)
    most = [int(record["text"].split()[1]) for record in holdfast.records("r", "answer")]
    assert max(most) == 2


def test_a_changed_template_is_refused_and_a_moved_one_is_not(holdfast, tmp_path):
    """Experiments 2: the content counts, not the place."""
    template = make_template(tmp_path)
    script = f"go = Path({str(tmp_path / 'go')!r}).exists(); Path('o').touch(); print('done'); sys.exit(not go)"
    eval_ = agent_eval(tmp_path, script, runner={"max_retries": 0})
    holdfast("run", eval_, "--run-dir", "r", code=1)
    (template / "main.py").write_text("print('edited')\n")
    refused = holdfast("resume", "r", "--redo", "status=failed", code=3)
    assert "tasks.t.workspace" in refused.err
    (template / "main.py").write_text("print('one')\n")
    template.rename(tmp_path / "moved")
    (tmp_path / "go").touch()
    agent_eval(tmp_path, script, name="moved.yaml", workspace={"path": "moved"}, runner={"max_retries": 0})
    holdfast("resume", "r", "--redo", "status=failed", "--config", "moved.yaml", code=0)
    assert answer(holdfast)["text"] == "done"


@pytest.mark.parametrize(
    ("agent", "workspace", "path"),
    [
        ({"env": ["HOME"]}, {}, ""),
        ({"tries": 7, "grace": 1}, {}, ""),
        ({}, {"keep": "always"}, ""),
        ({"answer": "diff"}, {}, "tasks.t.agent.answer"),
        ({"limits": {"processes": 9}}, {}, "tasks.t.agent.limits.processes"),
        ({}, {"checks": ["true"]}, "tasks.t.workspace.checks"),
        ({}, {"setup": "true"}, "tasks.t.workspace.setup"),
    ],
)
def test_what_may_change_on_resume_is_decided_by_field(holdfast, tmp_path, agent, workspace, path):
    make_template(tmp_path)
    holdfast("run", agent_eval(tmp_path, WORKS), "--run-dir", "r", code=0)
    other = agent_eval(tmp_path, WORKS, name="other.yaml", samples=2, agent=agent, workspace=workspace)
    shown = holdfast("diff", "r", other, "--json", code=3 if path else 0).json
    refused = {item["path"] for item in shown["differences"] if item["drift"] == "identity"}
    assert refused == ({path} if path else set())


def test_another_commit_is_refused(holdfast, tmp_path):
    repository = make_repository(tmp_path)
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "commit", "-qm", "empty", "--allow-empty")
    holdfast(
        "run", agent_eval(tmp_path, WORKS, workspace={"repo": "template", "commit": first}), "--run-dir", "r", code=0
    )
    other = agent_eval(tmp_path, WORKS, workspace={"repo": "template", "commit": "main"}, name="other.yaml", samples=2)
    assert "tasks.t.workspace.commit" in holdfast("resume", "r", "--config", other, code=3).err


def test_a_run_is_resumed_without_its_template(holdfast, tmp_path):
    """The run is enough."""
    template = make_template(tmp_path)
    go = str(tmp_path / "go")
    script = f"Path('o').touch(); print('done', Path('main.py').read_text()); sys.exit(not Path({go!r}).exists())"
    holdfast("run", agent_eval(tmp_path, script, runner={"max_retries": 0}), "--run-dir", "r", code=1)
    subprocess.run(["rm", "-rf", str(template)], check=True)
    (tmp_path / "go").touch()
    holdfast("resume", "r", "--redo", "status=failed", code=0)
    assert "print('one')" in answer(holdfast)["text"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workspace": {"path": "nowhere"}}, "does not exist"),
        ({"workspace": {"repo": "template"}}, "is not a git repository"),
        ({"workspace": {"path": "template", "files": {"../x": "rows.jsonl"}}}, "is not a place in the workspace"),
        ({"models": {"m": {"provider": "scripted", "model": "echo"}}}, "has an agent"),
        ({"agent": {"network": False}}, "only a sandbox can enforce"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(holdfast, tmp_path, options, message):
    make_template(tmp_path)
    eval_ = agent_eval(tmp_path, WORKS, **options)
    for arguments in (("--dry-run",), ()):
        assert message in holdfast("run", eval_, "--run-dir", "r", *arguments, code=2).err
    assert not (tmp_path / "r").exists()


def test_special_files_in_a_template_are_refused(holdfast, tmp_path):
    os.mkfifo(make_template(tmp_path) / "pipe")
    assert "neither a file" in holdfast("run", agent_eval(tmp_path, WORKS), "--run-dir", "r", code=2).err


def test_evaluate_runs_agents_as_well(holdfast, tmp_path):
    make_template(tmp_path)
    program = f"""
import sys
from holdfast import Sample, Task, command_agent, evaluate, exact
solver = command_agent("cat {{prompt_file}} > got; printf done", workspace={{"path": {str(tmp_path / "template")!r}}})
task = Task(name="t", samples=[Sample("go", target="done")], solver=solver, scorers=[exact()])
run = evaluate(task, models=["command/x"], run={str(tmp_path / "r")!r})
print(run.to_dicts()[0]["answer"])
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "done"
    assert left_in(tmp_path / "r") == []


@pytest.mark.parametrize("deleted", [False, True])
def test_a_key_in_a_repository_or_in_its_history_is_refused(holdfast, tmp_path, deleted):
    """The run would keep the objects; a key behind the first block of a large file is found too."""
    key, repository = "sk-verysecret-0123456789", make_repository(tmp_path)
    eval_ = agent_eval(tmp_path, WORKS, workspace={"repo": "template"})
    (repository / "notes.txt").write_text("x" * ((1 << 20) - 12) + key)
    git(repository, "add", "notes.txt")
    git(repository, "commit", "-qm", "notes")
    if deleted:
        git(repository, "rm", "-q", "notes.txt")
        git(repository, "commit", "-qm", "no notes")
    told = holdfast("run", eval_, "--run-dir", "r", code=2, SOME_API_KEY=key)
    assert "or its history, holds the value of the environment variable SOME_API_KEY" in told.err
    assert key not in told.err and not (tmp_path / "r").exists()
    holdfast("run", eval_, "--run-dir", "r", code=0, SOME_API_KEY="sk-another-9876543210")
