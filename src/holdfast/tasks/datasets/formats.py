"""Reading a dataset file row by row: JSON lines, a JSON array, or CSV with a header.

Every row that comes out is a JSON object of finite numbers and sound text. A row that is not one is
refused in one sentence naming the file, the line and, where it is known, the field. JSON lines and CSV are
streamed; only a JSON array is read whole, up to a cap.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.suggestions import did_you_mean
from holdfast.tasks.json_values import json_fault

LENIENT_BYTES = 1024 * 1024
MAX_ROW_BYTES = 16 * 1024 * 1024
MAX_ARRAY_BYTES = 256 * 1024 * 1024
SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv"}
_OTHER_SUFFIXES = {".parquet", ".xlsx", ".xls", ".ods", ".arrow", ".feather", ".tsv"}
_SHOWN_HEADER = 80
_SEPARATORS = {";": "semicolons", "\t": "tabs"}
BOM = b"\xef\xbb\xbf"
_WIDE_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
"""How a file begins whose encoding has two or four bytes to a character; the longer marks first."""
_CSV_FAULTS = {
    "unexpected end of data": "a quote is opened and never closed",
    "expected after": "there is text after a closing quote; a quote inside a field is written twice",
    "field larger than": "a field is too long",
    "new-line character": "there is a carriage return (CR) inside a field without quotes",
}
"""What the errors of the csv module are about, by a part of their text."""
_RE_SAVE = "Re-save the file as UTF-8."
_LOOKED_AT, _SHORT = 1000, 3

Row = dict[str, Any]
NumberedRow = tuple[int, Row]
"""A row, and the line that it begins on; in a JSON array, its place in it."""
Reader = Callable[[BinaryIO, str], Iterator[NumberedRow]]


def detect_format(path: Path, given: str | None = None) -> str:
    """The format that was given, or the one the file's name ends in."""
    if given is not None:
        if given not in READERS:
            raise ConfigurationError(
                f"Dataset {path.name}: {given!r} is not a supported format.",
                hint=f"Supported: jsonl, json and csv. {did_you_mean(given, READERS)}".strip(),
            )
        return given
    found = SUFFIXES.get(path.suffix.lower())
    if path.suffix.lower() in _OTHER_SUFFIXES:
        raise ConfigurationError(
            f"Dataset {path.name}: files of the kind {path.suffix} cannot be read.", hint="Convert it to jsonl or csv."
        )
    if found is None:
        raise ConfigurationError(
            f"Dataset {path.name}: cannot infer the format from the file name.",
            hint="Set format to jsonl, json or csv.",
        )
    return found


def read_rows(stream: BinaryIO, form: str, source: str) -> Iterator[Row]:
    """The rows of one dataset file, in file order; source names the file in errors."""
    return (row for _, row in numbered_rows(stream, form, source))


def numbered_rows(stream: BinaryIO, form: str, source: str) -> Iterator[NumberedRow]:
    """The same, with the number of each row for errors about it."""
    return READERS[form](stream, source)


def decode_row(line: bytes, place: str) -> Row:
    """One JSON object, or a refusal that says what is wrong with it and where."""
    try:
        row = msgspec.json.decode(line)
    except RecursionError:
        raise row_refusal(place, "is nested too deeply") from None
    except ValueError as error:
        raise row_refusal(place, describe_row_fault(line, str(error))) from None
    if not isinstance(row, dict):
        raise row_refusal(place, f"is {_json_kind(row)}, not a JSON object")
    return row


def row_refusal(place: str, fault: str) -> ConfigurationError:
    hint = _RE_SAVE if "UTF-8" in fault else "Correct or remove that row."
    return ConfigurationError(f"Dataset {place} {fault}.", hint=hint)


def _header_refusal(place: str, fault: str) -> ConfigurationError:
    """The names of all columns are in that line, so it cannot be removed."""
    return ConfigurationError(f"Dataset {place} is the header, and {fault}.", hint="Correct the header.")


def _refuse_wide_encoding(beginning: bytes, source: str) -> None:
    """Spreadsheets save "Unicode text" with two or four bytes to a character, which is full of NUL bytes."""
    found = next((name for mark, name in _WIDE_MARKS.items() if beginning.startswith(mark)), "")
    # Without a mark: in English text every second byte is NUL. A NUL byte alone is a fault of its row.
    fewer, more = sorted(half.count(0) / len(half) if half else 0.0 for half in (beginning[::2], beginning[1::2]))
    if found or (len(beginning) > _SHORT and fewer < 0.1 and more > 0.5):
        raise ConfigurationError(f"Dataset {source} is encoded in {found or 'UTF-16'}, not in UTF-8.", hint=_RE_SAVE)


def describe_row_fault(line: bytes, reason: str) -> str:
    """The fault of an undecodable row; the field is named where it is known."""
    named = _field_fault(line)
    if named:
        return named
    if "truncated" in reason:
        return "is not JSON: it is cut off"
    return f"is not JSON: {reason.removeprefix('JSON is malformed: ')}"


def _field_fault(line: bytes) -> str:
    if len(line) > LENIENT_BYTES:
        return ""
    import json  # noqa: PLC0415 - for an error only

    try:
        return json_fault(json.loads(line.decode(errors="surrogateescape")))
    except (ValueError, RecursionError):
        return ""


def _bounded_lines(stream: BinaryIO, source: str) -> Iterator[tuple[int, bytes]]:
    for number in itertools.count(1):
        line = stream.readline(MAX_ROW_BYTES + 1)
        if not line:
            return
        if len(line) > MAX_ROW_BYTES:
            raise row_refusal(f"{source} line {number}", f"is longer than {MAX_ROW_BYTES:,} bytes")
        if number == 1:
            _refuse_wide_encoding(line[:_LOOKED_AT], source)
            line = line.removeprefix(BOM)
        if b"\0" in line:
            raise row_refusal(f"{source} line {number}", f"holds a NUL byte (byte {line.index(0) + 1})")
        yield number, line


def _read_jsonl(stream: BinaryIO, source: str) -> Iterator[NumberedRow]:
    """One JSON object per line."""
    for number, line in _bounded_lines(stream, source):
        if not line.strip():
            continue
        if number == 1:
            _refuse_csv(line, source)
        yield number, decode_row(line.rstrip(), f"{source} line {number}")


def _refuse_csv(line: bytes, source: str) -> None:
    """A table whose name ends in .jsonl: no row of it is JSON, so that correcting one would not help."""
    beginning = line.strip()[:1]
    if b"," in line and (beginning.isalpha() or beginning == b"_"):
        header = line.decode(errors="replace").strip()[:_SHOWN_HEADER]
        raise ConfigurationError(
            f"Dataset {source} is not JSON lines: it begins like CSV, {header!r}.",
            hint="Name it .csv, or set format: csv in the dataset.",
        )


def _read_json(stream: BinaryIO, source: str) -> Iterator[NumberedRow]:
    """A JSON array of objects, or an object with such an array under "data"."""
    content = stream.read(MAX_ARRAY_BYTES + 1)
    if len(content) > MAX_ARRAY_BYTES:
        raise ConfigurationError(
            f"Dataset {source} is a JSON array of more than {MAX_ARRAY_BYTES:,} bytes, which is read whole.",
            hint="Write it as JSON lines, which are streamed.",
        )
    _refuse_wide_encoding(content[:_LOOKED_AT], source)
    for number, item in enumerate(_elements(content.removeprefix(BOM), source), start=1):
        yield number, decode_row(bytes(item), f"{source} row {number}")


def _elements(content: bytes, source: str) -> list[msgspec.Raw]:
    wrapped = content.lstrip().startswith(b"{")
    try:
        if wrapped:
            return msgspec.json.decode(content, type=_ArrayUnderData).data
        return msgspec.json.decode(content, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        raise ConfigurationError(
            f'Dataset {source} is neither a JSON array of objects nor an object with such an array under "data".',
            hint="JSON lines need the format jsonl.",
        ) from None
    except RecursionError:
        raise ConfigurationError(
            f"Dataset {source} is nested too deeply.", hint="Write it as a JSON array of flat objects."
        ) from None
    except ValueError as error:
        raise ConfigurationError(
            f"Dataset {source} {describe_row_fault(content, str(error))}.",
            hint="If each line is an object, the format is jsonl.",
        ) from None


class _ArrayUnderData(msgspec.Struct):
    data: list[msgspec.Raw]


def _read_csv(stream: BinaryIO, source: str) -> Iterator[NumberedRow]:
    """CSV in UTF-8; the first line names the columns."""
    import csv  # noqa: PLC0415 - most datasets are JSON lines

    before = csv.field_size_limit(MAX_ROW_BYTES)
    try:
        yield from _csv_rows(stream, source)
    finally:
        csv.field_size_limit(before)


def _csv_rows(stream: BinaryIO, source: str) -> Iterator[NumberedRow]:
    records = _csv_records(stream, source)
    header = next(records, None)
    if header is None:
        return
    names = _column_names(header[1], f"{source} line {header[0]}")
    has_trailing_spaces = any(name.endswith(" ") for name in header[1])
    _refuse_other_separator(names, source)
    number = 0
    for number, values in records:
        if len(values) != len(names):
            raise row_refusal(f"{source} line {number}", _describe_misfit(names, values))
        cells = [value.rstrip(" ") for value in values] if has_trailing_spaces else values
        yield number, dict(zip(names, cells, strict=True))
    if not number:
        raise ConfigurationError(
            f"Dataset {source} has a header and no rows.", hint="Add a line for each sample below the header."
        )


def _refuse_other_separator(names: list[str], source: str) -> None:
    for mark, called in _SEPARATORS.items():
        if len(names) == 1 and mark in names[0]:
            raise ConfigurationError(
                f"Dataset {source}: its header is one column, {names[0][:_SHOWN_HEADER]!r}; the file seems to be"
                f" separated by {called}.",
                hint="Save it with commas, or as jsonl.",
            )


def _csv_records(stream: BinaryIO, source: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line it begins on; blank lines are passed over.

    Where the header has spaces after its commas, they belong to the commas in all rows.
    """
    import csv  # noqa: PLC0415 - as above

    lines = _text_lines(stream, source)
    head = [*_up_to_header(lines)]
    reader = csv.reader(itertools.chain(head, lines), strict=True, skipinitialspace=_has_spaces_after_commas(head))
    while True:
        begins = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise row_refusal(f"{source} line {begins}", _csv_fault(str(error))) from None
        if record:
            yield begins, record


def _csv_fault(reason: str) -> str:
    """What is wrong with a record, in words of the file and not of the module that reads it."""
    known = next((words for part, words in _CSV_FAULTS.items() if part in reason), "")
    return f"is not CSV: {known or reason}"


def _refuse_other_line_ends(line: bytes, source: str) -> None:
    """Old programs end lines with CR alone, so that the whole file is one line."""
    ended = line.rstrip(b"\r\n")
    if b"\r" in ended and b'"' not in ended:
        raise ConfigurationError(
            f"Dataset {source} has line ends of the old Mac kind (CR alone).",
            hint="Save it with line ends of Unix (LF) or Windows (CRLF).",
        )


def _up_to_header(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if line.strip():
            return


def _has_spaces_after_commas(head: list[str]) -> bool:
    import csv  # noqa: PLC0415 - as above

    try:
        return any(name.startswith(" ") for names in csv.reader(head) for name in names)
    except csv.Error:
        # Whoever reads the records meets it again, and says so.
        return False


def _text_lines(stream: BinaryIO, source: str) -> Iterator[str]:
    for number, line in _bounded_lines(stream, source):
        if number == 1:
            _refuse_other_line_ends(line, source)
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise row_refusal(f"{source} line {number}", f"is not UTF-8 (byte {error.start + 1})") from None


def _column_names(names: list[str], place: str) -> list[str]:
    trimmed = [name.strip() for name in names]
    if "" in trimmed:
        raise _header_refusal(place, f"its column {trimmed.index('') + 1} has no name")
    repeated = {name for name in trimmed if trimmed.count(name) > 1}
    if repeated:
        raise _header_refusal(place, f"names the field {min(repeated)!r} twice")
    return trimmed


def _describe_misfit(names: list[str], values: list[str]) -> str:
    if len(values) > len(names):
        return f"has {len(values)} values for {len(names)} fields, the last of which is {names[-1]!r}"
    return f"has no value for the field {names[len(values)]!r}"


def _json_kind(value: object) -> str:
    if value is None:
        return "null"
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "an array"}
    return kinds[type(value)]


READERS: dict[str, Reader] = {"jsonl": _read_jsonl, "json": _read_json, "csv": _read_csv}
