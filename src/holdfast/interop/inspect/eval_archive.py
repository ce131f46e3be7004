"""An `.eval` file of Inspect's: a ZIP archive with the samples of one eval, finished or crashed.

A log without `header.json` is one whose eval has not ended: it is running, or its process was killed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from holdfast.errors import UsageError
from holdfast.interop.inspect.archive.zip_reader import ArchiveError, ZipReader
from holdfast.interop.inspect.json_text import InvalidJson, decode_json

SUFFIX = ".eval"
HEADER, START, SUMMARIES, REDUCTIONS = "header.json", "_journal/start.json", "summaries.json", "reductions.json"
_SUMMARY_PARTS, _CONFIG_UPDATES, _SAMPLES = "_journal/summaries/", "_journal/config_updates/", "samples/"
_MOST_HEADER = 256 << 20
_MOST_SUMMARIES = 64 << 20
_MOST_DIGITS = 10
_MOST_SAMPLE = 512 << 20
"""The largest member that is read as a whole."""


class SampleKey(NamedTuple):
    """Which sample it is. An id may be a number or a text: both are compared as texts, as in the names of members."""

    id: str
    epoch: int

    @property
    def member(self) -> str:
        """The name of its member in a log."""
        return f"{_SAMPLES}{self.id}_epoch_{self.epoch}.json"

    def __str__(self) -> str:
        return f"sample {self.id} epoch {self.epoch}"


def key_of(value: Any) -> SampleKey | None:
    """The key of a sample or its summary; None for what is neither."""
    if not isinstance(value, dict):
        return None
    ident, epoch = value.get("id"), value.get("epoch")
    is_id = isinstance(ident, str | int) and not isinstance(ident, bool)
    if not is_id or not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 0:
        return None
    return SampleKey(str(ident), epoch)


class EvalArchive:
    """A log that is open for reading; nothing in it is changed."""

    def __init__(self, path: Path) -> None:
        """Opens it.

        Raises:
            UsageError: there is no file.
            ArchiveError: it is not a log, or not a whole one.
            OSError: it cannot be read.
        """
        self.path = path
        if not path.is_file():
            what = "is not a file" if path.exists() else "does not exist"
            raise UsageError(f"{path} {what}.", hint="Name a log of Inspect's.")
        self.zip = ZipReader(path)
        if HEADER not in self.zip and START not in self.zip:
            self.zip.__exit__()
            raise ArchiveError(f"{path} has neither {HEADER} nor {START}.", hint="It is not a log of Inspect's.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.zip.__exit__()

    @property
    def has_ended(self) -> bool:
        """Whether the eval has come to its end, well or badly."""
        return HEADER in self.zip

    def header(self) -> dict[str, Any]:
        """What the log says of the eval as a whole: at least `eval`; of a crashed one, `status` is `started`."""
        name = HEADER if self.has_ended else START
        found = self._object(name)
        if not isinstance(found.get("eval"), dict):
            raise self._wrong(name, "has no description of the eval")
        return found if self.has_ended else {"status": "started", **found}

    def sample_members(self) -> list[str]:
        """The names of the members with samples, in the order of the file."""
        return [name for name in self.zip.entries if name.startswith(_SAMPLES) and name.endswith(".json")]

    def sample(self, name: str) -> dict[str, Any]:
        """The sample in a member.

        Raises:
            ArchiveError: the member is damaged, or holds another sample than its name says.
        """
        found = self._object(name, _MOST_SAMPLE)
        key = key_of(found)
        if key is None or key.member != name:
            raise self._wrong(name, f"holds {key}" if key else "holds no sample")
        return found

    def check(self, name: str) -> None:
        """Reads a member and forgets it.

        Raises:
            ArchiveError: the member is damaged.
        """
        for _ in self.zip.pieces(name):
            pass

    def summaries(self) -> Iterator[dict[str, Any]]:
        """The summaries of samples, in the order they were written; of several for one sample, the last counts."""
        for name in self.summary_members():
            yield from self.summaries_in(name)

    def summaries_in(self, name: str) -> Iterator[dict[str, Any]]:
        """The summaries in one member.

        Raises:
            ArchiveError: it is damaged, or too large.
        """
        found = self._value(name, _MOST_SUMMARIES)
        if not isinstance(found, list):
            raise self._wrong(name, "is not a list")
        yield from (summary for summary in found if key_of(summary))

    def summaries_size(self) -> int:
        """How many bytes the summaries have."""
        return sum(self.zip.entries[name].size for name in self.summary_members())

    def summary_members(self) -> list[str]:
        """The names of the members with summaries, in the order in which they were written."""
        return [SUMMARIES] if SUMMARIES in self.zip else self._numbered(_SUMMARY_PARTS)

    def config_updates(self) -> list[Any]:
        """The changes of settings while the eval ran."""
        return [self._value(name, _MOST_HEADER) for name in self._numbered(_CONFIG_UPDATES)]

    def _numbered(self, prefix: str) -> list[str]:
        """The members of a directory whose names are numbers, in their order."""
        numbers = {name: name.removeprefix(prefix).removesuffix(".json") for name in self.zip.entries}
        found = [
            name
            for name, number in numbers.items()
            if name.startswith(prefix) and number.isascii() and number.isdigit() and len(number) < _MOST_DIGITS
        ]
        return sorted(found, key=lambda name: int(numbers[name]))

    def _object(self, name: str, most: int = _MOST_HEADER) -> dict[str, Any]:
        found = self._value(name, most)
        if not isinstance(found, dict):
            raise self._wrong(name, "is not a JSON object")
        return found

    def _value(self, name: str, most: int) -> Any:
        try:
            return decode_json(self.zip.read(name, most))
        except InvalidJson as error:
            raise self._wrong(name, f"is not valid JSON: {error}") from error

    def _wrong(self, name: str, why: str) -> ArchiveError:
        return ArchiveError(f"{self.path}: the member {name!r} {why}.", hint="The log is damaged.")
