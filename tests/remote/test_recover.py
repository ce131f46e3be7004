"""Recovering from the store: what comes home, what is said of the rest, and what is never overwritten."""

from __future__ import annotations

import json

import pytest

import holdfast as api
from evals import http_eval
from remote_runs import cut_short, tree

__all__ = ["cut_short"]


def test_the_run_is_rebuilt_and_goes_on(holdfast, cut_short, server, tmp_path):
    """With the local directory gone, the run comes home with everything that was uploaded (recovery 6)."""
    ended = holdfast("recover", cut_short.url, "--to", "home", code=0)
    assert "5 of 8 trials are finished" in ended.out
    assert "last reported 5," in ended.out and "seconds ago" in ended.out
    assert "holdfast resume home" in ended.out
    holdfast("resume", "home", code=0)
    assert holdfast.json("report", "home")["coverage"]["valid"] == 8
    assert holdfast.json("verify", "home", code=0)["ok"]


def test_a_loss_with_its_machine_is_noted_once(holdfast, cut_short):
    """A segment that died with its machine is noted by the next session, and is no damage after that."""
    assert not holdfast.json("verify", cut_short.url, code=1)["ok"]
    holdfast("resume", cut_short.url, code=0)
    verified = holdfast.json("verify", cut_short.url, code=0)
    assert [note for note in verified["notes"] if "lost with its machine, noted by session 2" in note]
    last = [key for key in cut_short.segments() if "/000001-" in key][-1]
    cut_short.delete(last)
    cut_short.lose_machine()
    assert not holdfast.json("verify", cut_short.url, code=1)["ok"]


def test_twice_writes_nothing_the_second_time(holdfast, cut_short, tmp_path):
    """A second recovery gives the same and writes nothing (recovery 11)."""
    first = holdfast.json("recover", cut_short.url, "--to", "home", code=0)
    before = tree(tmp_path / "home")
    second = holdfast.json("recover", cut_short.url, "--to", "home", code=0)
    assert tree(tmp_path / "home") == before
    assert (second["fetched"], second["finished"]) == (0, first["finished"])


def test_an_existing_target_is_refused_unless_merged(holdfast, cut_short, tmp_path):
    """A target with something in it is refused; merging loses no record of either side (recovery 12)."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    assert "not an empty directory" in holdfast("recover", cut_short.url, "--to", "other", code=2).err
    holdfast("recover", cut_short.url, "--to", "home", code=0)
    everything = ids(holdfast, "home")
    segments = sorted((tmp_path / "home" / "journal").iterdir())
    damage(segments[0], at=-200)
    segments[1].unlink()
    assert "--merge" in holdfast("recover", cut_short.url, "--to", "home", code=2).err
    holdfast("resume", "home", code=0)
    own = ids(holdfast, "home")
    holdfast("recover", cut_short.url, "--to", "home", "--merge", code=0)
    assert ids(holdfast, "home") == everything | own


def ids(holdfast, run):
    return {tuple(json.loads(line)["id"]) for line in holdfast("cat", run).out.splitlines()}


def damage(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["missing", "corrupt", "garbage"])
def test_a_bad_remote_segment_is_named_and_the_others_come(holdfast, place, server, tmp_path, how):
    """A remote segment that is missing or corrupt is named, the others are recovered, verify fails (recovery 8)."""
    server.behave(latency=0.05)
    eval_file = http_eval(tmp_path, server.base_url, 12, concurrency_limit=2, runner={"upload_interval": 0.1})
    holdfast("run", eval_file, "--run-dir", place.url, code=0)
    place.lose_machine()
    chosen = place.segments()[1]
    if how == "missing":
        place.delete(chosen)
    else:
        data = bytearray(place.read(chosen))
        for at in range(0 if how == "garbage" else 150, len(data) if how == "garbage" else 151):
            data[at] ^= 0x5A
        place.write(chosen, bytes(data))
    ended = holdfast("recover", place.url, "--to", "home", code=0)
    assert chosen in ended.err and "warning" in ended.err
    present = {path.name for path in (tmp_path / "home" / "journal").iterdir()}
    assert {key.rpartition("/")[2] for key in place.segments() if key != chosen} <= present
    assert chosen in holdfast("verify", "home", code=1).out
    assert chosen in holdfast("verify", place.url, code=1).out
    holdfast("resume", "home", code=0)
    assert holdfast.json("status", "home")["state"] == "complete"


def test_verbs_given_a_url_print_the_url(holdfast, cut_short):
    """Whatever a verb says of a run that was named by its URL, it names it so."""
    assert holdfast.json("status", cut_short.url)["run"] == cut_short.url
    assert cut_short.url in holdfast("verify", cut_short.url).out
    assert "holdfast/view" not in holdfast("resume", cut_short.url).out


async def _recovered(url, to):
    return await api.recover_async(url, to)


def test_python_recovers_too(cut_short, tmp_path):
    """`recover` and `recover_async` give what the command line prints."""
    import asyncio  # noqa: PLC0415 - only here

    first = api.recover(cut_short.url, tmp_path / "home")
    second = asyncio.run(_recovered(cut_short.url, tmp_path / "home"))
    assert (first.finished, second.finished, second.fetched) == (5, 5, 0)
