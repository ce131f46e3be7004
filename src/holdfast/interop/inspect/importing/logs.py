"""Logs of Inspect's, as `.eval` and as `.json`: their samples as trials, one at a time.

The log of an eval that did not come to its end is read too: what a flush has written counts, and the others were not
started. `holdfast recover` finds more of a crashed one.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from holdfast.interop.importing.foreign_eval import ForeignEval, ForeignTrial, SkippedItem
from holdfast.interop.importing.foreign_values import UnreadableFile, list_of, map_of, read_regular_file
from holdfast.interop.inspect.archive.zip_reader import ArchiveError
from holdfast.interop.inspect.eval_archive import SUFFIX, EvalArchive, SampleKey, key_of
from holdfast.interop.inspect.importing.sample_trial import LogFacts, sample_trial
from holdfast.interop.inspect.json_text import InvalidJson, decode_json

_TOOL = "Inspect"
_JSON = ".json"
_MOST_JSON = 1 << 30
_MOST_SUMMARIES = 32 << 20
_PLAIN_METRICS = {"accuracy", "mean", "stderr", "std"}
_USUAL_REDUCERS = {"mean", "mean_score"}


def recognises(path: Path) -> bool:
    """Whether a file is such a log: any `.eval`, and a `.json` that has what a log has."""
    if path.suffix == SUFFIX:
        return path.is_file()
    if path.suffix != _JSON or not path.is_file():
        return False
    try:
        return _is_log(_read_json(path))
    except ArchiveError:
        return False


def _is_log(value: Any) -> bool:
    spec = map_of(map_of(value).get("eval"))
    return "status" in map_of(value) and "task" in spec and "model" in spec


def read(path: Path) -> ForeignEval:
    """The eval of a log.

    Raises:
        ArchiveError: the log cannot be read.
    """
    return _read_archive(path) if path.suffix == SUFFIX else _read_whole(path)


def _read_archive(path: Path) -> ForeignEval:
    with EvalArchive(path) as archive:
        header = archive.header()
        # Only to name what the log has lost: not worth much memory.
        told = archive.summaries() if archive.summaries_size() <= _MOST_SUMMARIES else iter(())
        summaries = {key for summary in told if (key := key_of(summary))}
    facts = LogFacts.of(header)

    def items() -> Iterator[ForeignTrial | SkippedItem]:
        with EvalArchive(path) as archive:
            members = archive.sample_members()
            for name in members:
                yield from _from_member(archive, name, facts)
            there = set(members)
            lost = sorted(key for key in summaries if key.member not in there)
            yield from (SkippedItem(str(key), "its summary is there, and the sample is not") for key in lost)
            yield from facts.not_started(there)

    return _foreign_eval(path, header, facts, items())


def _from_member(archive: EvalArchive, name: str, facts: LogFacts) -> Iterator[ForeignTrial | SkippedItem]:
    try:
        yield _trial(archive.sample(name), name, facts)
    except ArchiveError as error:
        yield SkippedItem(name, error.message)


def _trial(sample: dict[str, Any], place: str, facts: LogFacts) -> ForeignTrial | SkippedItem:
    try:
        return sample_trial(sample, place, facts)
    except RecursionError:
        return SkippedItem(place, "it is nested too deeply")


def _read_whole(path: Path) -> ForeignEval:
    content = _read_json(path)
    header = {name: value for name, value in content.items() if name not in ("samples", "reductions")}
    if not _is_log(content):
        raise ArchiveError(f"{path} is not a log of Inspect's.", hint="It has no `status` or no `eval`.")
    facts = LogFacts.of(header)

    def items() -> Iterator[ForeignTrial | SkippedItem]:
        there: dict[SampleKey, int] = {}
        samples = list_of(content.get("samples"))
        for number, sample in enumerate(samples):
            if key := key_of(sample):
                if key in there:
                    # The last counts, as in an archive. There, Inspect writes a sample twice; here it does not.
                    yield SkippedItem(f"samples[{there[key]}]", f"samples[{number}] is {key} too, and counts")
                there[key] = number
            else:
                yield SkippedItem(f"samples[{number}]", "it has no id and no epoch")
        for number in there.values():
            yield _trial(samples[number], f"samples[{number}]", facts)
        yield from facts.not_started({key.member for key in there})

    return _foreign_eval(path, header, facts, items())


def _read_json(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _MOST_JSON:
        raise ArchiveError(
            f"{path} is larger than {_MOST_JSON >> 30} GiB.",
            hint="Convert it first, as an .eval is read a sample at a time: inspect log convert --to eval",
        )
    try:
        return map_of(decode_json(read_regular_file(path, _MOST_JSON)))
    except UnreadableFile as error:
        raise ArchiveError(f"{path} cannot be used: {error}.") from error
    except InvalidJson as error:
        raise ArchiveError(f"{path} is not valid JSON: {error}.", hint="The log is damaged.") from error


def _foreign_eval(
    path: Path, header: dict[str, Any], facts: LogFacts, items: Iterable[ForeignTrial | SkippedItem]
) -> ForeignEval:
    return ForeignEval(
        tool=_TOOL,
        name=facts.task,
        place=str(path),
        items=lambda: items,
        details={name: value for name, value in header.items() if name not in ("results", "samples")},
        notes=list(_notes(header, facts)),
    )


def _notes(header: dict[str, Any], facts: LogFacts) -> Iterator[str]:
    """What a person should know who compares the figures."""
    if header.get("status") == "started":
        yield "the eval did not come to its end; `holdfast recover` may find more samples in its buffers"
    reducers = {str(reducer) for reducer in list_of(facts.config.get("epochs_reducer"))} - _USUAL_REDUCERS
    if reducers:
        yield f"Inspect combines epochs by {', '.join(sorted(reducers))}; here the mean of the epochs counts"
    named = {
        str(name)
        for score in list_of(map_of(header.get("results")).get("scores"))
        for name in map_of(map_of(score).get("metrics"))
    }
    if others := sorted(named - _PLAIN_METRICS):
        yield f"metrics that are not computed here: {', '.join(others)}"
