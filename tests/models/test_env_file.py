"""The file `.env` beside an eval: what is read of it, what wins, and that nothing of it is ever shown."""

from __future__ import annotations

import os

import pytest

from holdfast.errors import ConfigurationError
from holdfast.models.env_file import MAX_BYTES, read_env_file
from holdfast.models.redaction import redact

LINES = {
    "A=b": "b",
    "export A=b": "b",
    "A = b c  # a comment": "b c",
    "A=": "",
    "A= # only a comment": "",
    "A='single # quoted'": "single # quoted",
    'A="double \\"quoted\\"\\n"  # a comment': 'double "quoted"\n',
    "A=a#b": "a#b",
    "A=$HOME": "$HOME",
    "A==x=": "=x=",
    "\ufeffA=b": "b",
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_gives_a_variable_its_value(tmp_path, line):
    """Quotes, `export` and comments are understood; nothing is interpolated."""
    (tmp_path / ".env").write_text(f"{line}\n")
    environment: dict[str, str] = {}
    assert read_env_file(tmp_path, environment) == []
    assert environment == {"A": LINES[line]}


def test_the_environment_wins(tmp_path):
    """A variable that is set keeps its value, also an empty one."""
    (tmp_path / ".env").write_text("A=file\nB=file\nC=file\n")
    environment = {"A": "own", "B": ""}
    read_env_file(tmp_path, environment)
    assert environment == {"A": "own", "B": "", "C": "file"}


@pytest.mark.parametrize(
    "line", [b"nonsense-sk-secret", b"A='sk-secret", b'A="x" sk-secret', b"1A=sk-secret", b"A=\xffx", b"A=\0x"]
)
def test_a_malformed_line_is_named_by_its_number_alone(tmp_path, line):
    """The warning has the file and the line number, and nothing of the line."""
    (tmp_path / ".env").write_bytes(b"# fine\n\n" + line + b"\nB=c\n")
    environment: dict[str, str] = {}
    (warning,) = read_env_file(tmp_path, environment)
    assert warning == f"{tmp_path / '.env'}, line 3: not of the form NAME=value; it was skipped."
    assert environment == {"B": "c"}


def test_many_malformed_lines_are_one_warning(tmp_path):
    """A file of another kind does not fill the screen."""
    (tmp_path / ".env").write_text("x y\n" * 100)
    assert read_env_file(tmp_path, {}) == [
        f"{tmp_path / '.env'}, lines 1, 2, 3, 4, 5 and 95 more: not of the form NAME=value; they were skipped."
    ]


def test_no_file_and_a_directory_are_nothing(tmp_path):
    """Most evals have no such file, and some people keep a virtual environment under this name."""
    assert read_env_file(tmp_path, {}) == [] and read_env_file(tmp_path / "gone", {}) == []
    (tmp_path / ".env").mkdir()
    assert read_env_file(tmp_path, {}) == []


def test_what_is_not_a_regular_file_or_too_large_is_refused(tmp_path):
    """A pipe would hang, and a large file is something else."""
    os.mkfifo(tmp_path / ".env")
    with pytest.raises(ConfigurationError, match="is not a regular file"):
        read_env_file(tmp_path, {})
    (tmp_path / ".env").unlink()
    (tmp_path / ".env").write_bytes(b"A=b\n" * MAX_BYTES)
    with pytest.raises(ConfigurationError, match="is larger than 256 KiB"):
        read_env_file(tmp_path, {})


def test_secrets_are_redacted_and_other_values_are_not(tmp_path):
    """What is secret by its name or its form is replaced from now on; a city is not, for a model may name it."""
    lines = "X_API_KEY=first-hidden-value\nOTHER=sk-second-hidden-value-00\nDB_URL=https://me:third-hidden@host/x\n"
    (tmp_path / ".env").write_text(lines + "CITY=San Francisco Bay\nKEYBOARD=a mechanical one\n")
    read_env_file(tmp_path, {})
    text = (
        "first-hidden-value sk-second-hidden-value-00 https://me:third-hidden@host/x San Francisco Bay a mechanical one"
    )
    assert redact(text) == "[X_API_KEY] [OTHER] [DB_URL] San Francisco Bay a mechanical one"
