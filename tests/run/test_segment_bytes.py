"""segment_bytes: the size at which a file of the journal is sealed, in the first session and in later ones."""

from __future__ import annotations

from evals import write_dataset, write_eval
from holdfast.engine.opening.new_run import start_run
from holdfast.engine.opening.resume import resume_run
from holdfast.run.session.writer_options import WriterOptions
from holdfast.spec import load_eval, resolve


def size_of(started):
    """At what size the journal of a session seals a segment."""
    try:
        return started.session.sink.journal._segment_bytes
    finally:
        started.session.abandon()


def test_both_sessions_seal_at_the_size_of_the_eval(tmp_path):
    """The run has it on record, and a resume needs nothing else."""
    write_dataset(tmp_path, 2)
    task = {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}
    model = {"provider": "scripted", "model": "echo"}
    data = {"models": {"m": model}, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"t": task}}
    spec = resolve(load_eval(write_eval(tmp_path, {**data, "segment_bytes": 70_000})))
    assert size_of(start_run(spec, tmp_path / "r")) == 70_000
    assert size_of(resume_run(tmp_path / "r")) == 70_000


def test_a_configuration_without_it_changes_nothing():
    """Earlier runs have none on record."""
    options = WriterOptions(segment_bytes=900)
    for config in ({}, {"runner": {}}, {"runner": None}, {"runner": {"segment_bytes": "many"}}):
        assert options.configured(config) == options
    assert options.configured({"runner": {"segment_bytes": 65_536}}).segment_bytes == 65_536
