"""An eval file is read quickly and in little memory, or refused with the line and the reason."""

import subprocess
import sys

import pytest

from holdfast.errors import ConfigurationError
from holdfast.spec import load_eval, parse_eval
from holdfast.spec.loading.yaml_document import MAX_BYTES, MAX_DEPTH, MAX_VALUES, read_document


def refusal(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_eval(text, "eval.yaml")
    return str(caught.value)


def file_refusal(path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_eval(path)
    return str(caught.value)


def test_a_file_is_loaded(tmp_path):
    """A file gives the eval its name and the place where relative paths start."""
    file = tmp_path / "capitals.yaml"
    file.write_text(
        "models: {small: openai/gpt-4o-mini}\ndatasets: {rows: rows.jsonl}\ntasks: {ask: {dataset: rows}}\n"
    )
    spec = load_eval(file)
    assert (spec.name, spec.directory) == ("capitals", str(tmp_path))
    assert (spec.models["small"].provider, spec.models["small"].model) == ("openai", "gpt-4o-mini")
    assert spec.datasets["rows"].path == "rows.jsonl"


def test_the_name_in_the_file_wins(tmp_path):
    """A name given in the file is the eval's name; a directory in it is relative to the file's."""
    file = tmp_path / "a.yaml"
    file.write_text("name: b\ndirectory: data/..//data")
    spec = load_eval(file)
    assert (spec.name, spec.directory) == ("b", str(tmp_path / "data"))


def test_a_relative_path_to_the_file_gives_an_absolute_directory(tmp_path, monkeypatch):
    """The directory does not depend on where the command was started."""
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "a.yaml").write_text("seed: 1")
    monkeypatch.chdir(tmp_path)
    assert load_eval("evals/a.yaml").directory == str(tmp_path / "evals")


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("seed: 1\nname: a\nseed: 2\n", 3, "seed"),
        ("models:\n  a: x/y\n  b: x/y\n  a: x/z\n", 4, "a"),
        ('{"tasks": {"t": {"args": {"n": 1,\n "n": 1}}}}', 2, "n"),
        ("tasks: {t: {few_shot: [{input: a, output: b, 'input': c}]}}", 1, "input"),
    ],
)
def test_a_duplicate_key_is_refused(text, line, key):
    """A key given twice in one map is refused with its name and the line of the second."""
    assert refusal(text) == f'eval.yaml, line {line}: the key "{key}" is given twice in one map; keep one.'


def test_equal_keys_in_different_maps_are_fine():
    """The same key may stand in two maps, also nested and one after the other."""
    assert read_document("a: {x: 1, y: {x: 2}}\nb: {x: 3}\nx: [{x: 1}, {x: 2}]", "") == {
        "a": {"x": 1, "y": {"x": 2}},
        "b": {"x": 3},
        "x": [{"x": 1}, {"x": 2}],
    }


@pytest.mark.parametrize("levels", [9, 30])
def test_aliases_that_multiply_are_refused(levels):
    """A small file that stands for billions of values is refused before any of them is built."""
    lines = ["l0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, levels)]
    assert "aliases multiply its content" in refusal("\n".join(lines))


def test_merges_that_multiply_are_refused():
    """Merge keys count like any other alias."""
    lines = ["l0: &l0 {k: v}"]
    lines += [f"l{n}: &l{n} {{<<: [{', '.join([f'*l{n - 1}'] * 9)}], k{n}: v}}" for n in range(1, 30)]
    assert "aliases multiply its content" in refusal("\n".join(lines))


def test_one_long_text_repeated_by_aliases_is_refused():
    """What an alias repeats is counted by its length."""
    text = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 100)}]"
    assert "aliases multiply its content" in refusal(text)


def test_an_alias_to_itself_is_refused():
    """A map that contains itself is refused."""
    assert 'the alias "a" is inside what it refers to' in refusal("tasks: &a {x: *a}")


def test_ordinary_aliases_and_merges_work():
    """Anchors and merge keys spare typing, as usual."""
    text = """
    tasks:
      a: &a {use: x, epochs: 2, args: {n: 1}}
      b: {<<: *a, epochs: 3}
    models: {m: &m {provider: p, model: q}, k: *m}
    """
    spec = parse_eval(text)
    assert (spec.tasks["b"].use, spec.tasks["b"].epochs, spec.tasks["b"].args) == ("x", 3, {"n": 1})
    assert spec.models["k"] == spec.models["m"]


def test_a_huge_file_is_refused_without_reading_it(tmp_path):
    """A file of 50 MB is refused in less memory than reading it would take."""
    file = tmp_path / "huge.yaml"
    with file.open("wb") as stream:
        stream.write(b"a: ")
        stream.truncate(50 * 2**20)
    result = limited(40, f"load_eval({str(file)!r})")
    assert f"larger than {MAX_BYTES // 2**20} MiB" in result.stdout, result.stderr


def test_an_endless_stream_is_refused():
    """A device without an end is read no further than the limit."""
    assert "larger than" in file_refusal("/dev/zero")


def test_a_long_text_is_refused_before_parsing():
    """The limit holds for text that did not come from a file too."""
    assert "larger than" in refusal("#" * (MAX_BYTES + 1))


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, "{a: " * 50_000])
def test_nesting_without_end_is_refused(text):
    """Depth is limited, long before anything would overflow."""
    assert f"nested deeper than {MAX_DEPTH} levels" in refusal(text)


def test_a_flood_of_values_is_refused():
    """A file within the limit of size but of very many values is refused."""
    assert f"more than {MAX_VALUES} values" in refusal("[" + "a," * (MAX_VALUES + 1) + "]")


LAUGHS = "\n".join(
    ["l0: &l0 [x,x,x,x,x,x,x,x,x]", *(f"l{n}: &l{n} [{','.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 40))]
)


@pytest.mark.parametrize(
    "text",
    [
        repr(LAUGHS),
        "'[' * 10**6",
        "'[' + 'a,' * 10**6",
        "'a: ' + 'x' * 2 * 10**6 + '\\nb: ['",
        "'k: &k [1]\\nv: [' + '*k,' * 10**5",
    ],
    ids=["laughs", "depth", "values", "text", "aliases"],
)
def test_memory_stays_bounded_for_hostile_files(text):
    """A bomb of any kind is refused within 100 MB beyond what the program itself takes."""
    result = limited(100, f"parse_eval({text}, 'bomb')")
    assert result.stdout.startswith("bomb, line "), result.stderr
    assert len(result.stdout) < 200


def limited(megabytes: int, call: str) -> subprocess.CompletedProcess[str]:
    """The refusal of a call that runs in a process of its own, with so much memory to spare."""
    program = f"""
import resource
from holdfast.errors import ConfigurationError
from holdfast.spec import load_eval, parse_eval
import holdfast.spec.loading.yaml_document
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {megabytes} * 2**20, used + {megabytes} * 2**20))
try:
    {call}
except ConfigurationError as error:
    print(error)
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: [1\nb: 2\n", 1, "what opens here has no ']' or ',' before line 2"),
        ("a: 1\n  b: 2\n", 2, "it is indented further than line 1, which has a value already"),
        ("a: 1\nb:\n  c: {d: 1\n\ne: 2\n", 3, "what opens here has no '}' or ',' before line 5"),
        ("a: {b: 1 c: 2}\n", 1, "a ',' or '}' is missing"),
        ('a: 1\nb: "x\nc: 2\n', 2, "the quotation mark that opens here is never closed"),
        ("a: 1\nb: 'x\n", 2, "the quotation mark that opens here is never closed"),
        ('a: 1\nb: "x\nc: "y"\nd: 2\n', 2, "the quotation mark that opens here is closed only in line 3"),
        ("a: 1\nmodels\n  m: x\n", 2, "a ':' is missing after the key"),
        ("a: 1\nmodels\n", 2, "a ':' is missing after the key"),
        ("a:\n  b:c\n\n  d: e\n", 2, "a space is missing after the ':'"),
        ("a:\n  b: http://x\n    d: e\n", 3, "it is indented further than line 2"),
        ("a: this: that\nb: 1\n", 1, "a value holds ': '. Quote the whole value"),
        ("a: 1\nb: @x\n", 2, "a value cannot begin with @. Quote the value."),
        ("a: 1\nb: {c: 2,\n", 2, "not valid YAML"),
        ("a: 1\nb: [", 2, "not valid YAML"),
        ("seed: 1\nname: *unknown\n", 2, "undefined alias"),
        ("seed: 1\n---\nseed: 2\n", 2, "a second document"),
        ("seed: !!int '3'\n", 1, "the tag"),
        ("models: !env KEY\n", 1, "the tag"),
        ("a: !!python/object/apply:os.system [ls]\n", 1, "the tag"),
        ("? [a, b]\n: 1\n", 1, "a key must be plain text"),
        ("seed: 1\nname: a\x07b\n", 2, "control characters"),
        ("a: &x 1\n*x : 2\n", 2, "a key must be plain text, not an alias"),
        ("<<: 3\n", 1, "merging"),
        ('a: "\\ud800"\n', 1, "not valid YAML"),
        ("\ta: 1", 1, "not valid YAML"),
    ],
)
def test_broken_yaml_is_refused_with_its_line(text, line, reason):
    """A syntax error, a tag or a second document is refused in one sentence with the line."""
    message = refusal(text)
    assert message.startswith(f"eval.yaml, line {line}: ")
    assert reason in message
    assert "\n" not in message


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "null", "~"])
def test_an_empty_file_is_refused(text):
    """A file without content is refused as empty."""
    assert refusal(text) == "eval.yaml is empty. Write at least `models` and `tasks`."


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    """Text in another encoding is refused with the place of the first bad byte."""
    file = tmp_path / "latin.yaml"
    file.write_bytes("name: Köln".encode("latin-1"))
    assert file_refusal(file) == f"{file} is not UTF-8 text (at byte 7). Re-save the file as UTF-8."


def test_a_byte_order_mark_is_passed_over(tmp_path):
    """A file saved by an editor that marks UTF-8 loads like any other."""
    file = tmp_path / "marked.yaml"
    file.write_bytes("\ufeffname: Köln".encode())
    assert load_eval(file).name == "Köln"


def test_a_missing_file_is_refused(tmp_path):
    """A path that leads nowhere is named."""
    assert file_refusal(tmp_path / "no.yaml").startswith(f"{tmp_path}/no.yaml does not exist.")


def test_a_directory_is_refused(tmp_path):
    """A directory in place of a file is refused as such."""
    assert file_refusal(tmp_path) == f"{tmp_path} is a directory. Name the eval file in it."


def test_a_name_too_long_for_the_system_is_refused():
    """Whatever the system says about a path becomes a configuration error."""
    assert "cannot be read: File name too long." in file_refusal("x" * 5000)


def test_a_path_with_a_zero_byte_is_refused():
    """A path that no system takes becomes a configuration error too, without its control characters."""
    assert file_refusal("a\0b") == '"a\\u0000b" cannot be read: embedded null byte.'


def test_json_is_read_too(tmp_path):
    """An eval written by a program as JSON, with tabs, loads the same."""
    file = tmp_path / "eval.json"
    file.write_text(
        '{\n\t"models": {"m": {"provider": "p", "model": "a\\/b"}},\n\t"seed": 3,\n\t"tags": ["a", "é"]\n}\n'
    )
    spec = load_eval(file)
    assert (spec.models["m"].model, spec.seed, spec.tags) == ("a/b", 3, ["a", "é"])


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("No", "No"),
        ("yes", "yes"),
        ("on", "on"),
        ("2024-01-01", "2024-01-01"),
        ("12:30", "12:30"),
        ("012", "012"),
        ("1_000", "1_000"),
        ("=", "="),
        ("true", True),
        ("False", False),
        ("1e-3", 0.001),
        ("1.5E+2", 150.0),
        (".5", 0.5),
        ("-7", -7),
        ("+0", 0),
        ("9" * 60, "9" * 60),
        ("null", None),
    ],
)
def test_plain_words_mean_what_they_look_like(word, value):
    """Answers such as No, dates and times stay text; numbers in any usual notation are numbers."""
    read = read_document(f"- {word}", "")[0]
    assert read == value
    assert type(read) is type(value)


def test_importing_the_schema_does_not_load_yaml():
    """Only reading or writing a file needs PyYAML."""
    program = "import sys, holdfast.spec; print('yaml' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
