"""Hostile agents are contained, and the run goes on: each case beside a trial that is like any other."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from agents.agent_evals import agent_eval, left_in, make_repository, make_template, processes_below

CASES = {
    "endless output": "signal.alarm(2)\nwhile True: os.write(1, b'y' * 65536)",
    "deletes the workspace": "import shutil; shutil.rmtree(os.getcwd()); print('done')",
    "replaces the workspace by a link": """
import shutil; place = os.getcwd(); os.chdir("/"); shutil.rmtree(place); os.symlink("/etc", place); print("done")
""",
    "replaces the workspace by a file": """
import shutil; place = os.getcwd(); os.chdir("/"); shutil.rmtree(place); open(place, "w").close(); print("done")
""",
    "kills its parent": "os.kill(os.getppid(), 9); time.sleep(300)",
    "stops its parent": "os.kill(os.getppid(), signal.SIGSTOP); time.sleep(300)",
    "kills its group": "os.killpg(0, 9)",
    "daemons": """
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)
        os._exit(0)
print("done")
""",
    "fork bomb": "for _ in range(8): os.fork()\ntime.sleep(300)",
    "closes everything": "os.closerange(0, 64); time.sleep(0.1); os._exit(0)",
    "special files": """
os.mkfifo("pipe"); os.mkfifo(Path(os.environ["TMPDIR"], "output"))
import socket; socket.socket(socket.AF_UNIX).bind("socket"); print("done")
""",
    "odd names": r"""
for name in (b"a\nb", b"\xff\xfe", b"-rf", b"'\"`$(x)", b"\x1b[31m"): open(name, "wb").write(b"x\n")
print("done")
""",
    "huge sparse file": "f = open('huge', 'wb'); f.truncate(1 << 40); f.close(); print('done')",
    "deep directories": "for _ in range(600): os.mkdir('d' * 50); os.chdir('d' * 50)\nprint('done')",
    "no permissions": """
os.mkdir("shut"); open("shut/x", "w").close(); os.chmod("shut", 0); os.chmod(".", 0o500); print("done")
""",
    "many files": "for n in range(20000): open(f'f{n}', 'w').close()\nprint('done')",
    "hostile repository": """
import subprocess; subprocess.run(["git", "init", "-q", "."], check=True)
run = "touch {marker}"
own = ["[core]", "fsmonitor = " + run, "[diff]", "external = " + run]
own += ['[filter "x"]', "clean = " + run, "smudge = " + run]
Path(".git/config").write_text("\\n".join(own))
Path(".gitattributes").write_text("* filter=x diff=y\\n"); Path("main.py").write_text("changed\\n"); print("done")
""",
    "link in place of .git": "os.symlink('/', '.git'); print('done')",
}


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_agent_is_contained_and_the_run_goes_on(holdfast, tmp_path, case):
    make_template(tmp_path)
    marker = tmp_path / "executed"
    hostile = "\n".join(f"    {line}" for line in CASES[case].replace("{marker}", str(marker)).splitlines())
    script = f"if 'w0' in Path(sys.argv[1]).read_text():\n    pass\n{hostile}\n    sys.exit(0)\nprint('done')\n"
    limits = {"processes": 60, "output": 200_000}
    eval_ = agent_eval(
        tmp_path,
        script,
        samples=2,
        agent={"limits": limits, "tries": 1, "grace": 0.2},
        workspace={"keep": "never"},
        task={"limits": {"time": 20 if case != "stops its parent" else 2}},
        runner={"max_retries": 0},
    )
    ended = holdfast("run", eval_, "--run-dir", "r")
    assert ended.code in {0, 1}
    status = {trial["sample"]: trial["status"] for trial in holdfast.records("r", "trial")}
    assert status["s1"] == "valid"
    assert processes_below(tmp_path) == []
    assert not marker.exists()
    if status["s0"] != "unfinished":
        assert left_in(tmp_path / "r") == []
    assert holdfast.json("verify", "r")["ok"] is True
    assert sum(path.stat().st_size for path in (tmp_path / "r" / "artifacts").rglob("*") if path.is_file()) < 3_000_000


ESCAPES = """
for place in ({outside!r}, "/etc/holdfast-was-here", os.path.expanduser("~/../../x")):
    try: open(place, "w").close()
    except OSError as error: print(type(error).__name__)
    else: print("written", place)
Path("inside").touch(); Path(os.environ["HOME"], "h").touch(); Path(os.environ["TMPDIR"], "t").touch(); print("done")
"""


def has_sandlock():
    import importlib.util  # noqa: PLC0415

    return importlib.util.find_spec("sandlock") is not None


def has_bubblewrap():
    program = shutil.which("bwrap")
    return (
        bool(program)
        and not subprocess.run(
            [program, "--ro-bind", "/", "/", "--unshare-pid", "true"], check=False, capture_output=True
        ).returncode
    )


AVAILABLE = {"bubblewrap": has_bubblewrap, "sandlock": has_sandlock}


@pytest.mark.parametrize("sandbox", AVAILABLE)
def test_a_sandbox_keeps_an_agent_from_writing_outside(holdfast, tmp_path, sandbox):
    """Experiments 3; hostile: writing outside. Where the sandbox is not there, nothing is started."""
    make_template(tmp_path)
    outside = tmp_path / "outside"
    eval_ = agent_eval(tmp_path, ESCAPES.format(outside=str(outside)), agent={"sandbox": sandbox})
    if not AVAILABLE[sandbox]():
        for arguments in (("--dry-run",), ()):
            assert f"sandbox {sandbox}" in holdfast("run", eval_, "--run-dir", "r", *arguments, code=2).err
        assert not (tmp_path / "r").exists()
        return
    holdfast("run", eval_, "--run-dir", "r", code=0)
    text = holdfast.records("r", "answer")[0]["text"]
    assert "written" not in text
    assert "done" in text
    assert not outside.exists()


@pytest.mark.skipif(not has_bubblewrap(), reason="bubblewrap does not work here")
def test_bubblewrap_hides_the_run_but_for_the_workspace(holdfast, tmp_path):
    """Neither other trials nor the targets can be read; the history of the repository can."""
    make_repository(tmp_path)
    script = """
import subprocess
run = Path.cwd().parents[2]
print(sorted(os.listdir(run)), sorted(path.name for path in Path.cwd().parent.iterdir()))
print(subprocess.run(["git", "log", "--oneline"], capture_output=True, text=True).stdout)
print("read", Path(sys.argv[1]).read_text(), "done")
"""
    options = {"agent": {"sandbox": "bubblewrap"}, "workspace": {"repo": "template", "keep": "always"}}
    holdfast("run", agent_eval(tmp_path, script, **options), "--run-dir", "r", code=0)
    text = holdfast.records("r", "answer")[0]["text"]
    assert "['workspaces'] ['home', 'prompt.txt', 'tmp', 'work']" in text
    assert " one\n" in text
    assert "read Write w0. done" in text
    assert not list((tmp_path / "r" / "workspaces").glob("*/prompt.txt"))
    (replay,) = (tmp_path / "r" / "artifacts").glob("*/replay.sh")
    assert f'"$run"/artifacts/{replay.parent.name}/prompt.txt' in replay.read_text()


def test_an_agent_behind_a_wrapper_that_ends_normally_is_a_success(holdfast, tmp_path):
    """Experiments 3: a container engine's run command is such a prefix."""
    make_template(tmp_path)
    wrapper = tmp_path / "engine.sh"
    wrapper.write_text('#!/bin/sh\nshift 2\n"$@"\ncode=$?\necho wrapped\nexit $code\n')
    wrapper.chmod(0o755)
    eval_ = agent_eval(tmp_path, "print('done')", agent={"wrap": [str(wrapper), "run", "--volume={workspace}"]})
    holdfast("run", eval_, "--run-dir", "r", code=0)
    assert holdfast.records("r", "answer")[0]["text"] == "done\nwrapped"
