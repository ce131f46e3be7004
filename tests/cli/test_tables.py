"""Tables and text in columns: aligned, cut, wrapped at words, whatever the text is."""

from __future__ import annotations

import random

import click
import pytest

from holdfast.cli.ui.output_text import output_columns
from holdfast.cli.ui.table import Column, table_lines
from holdfast.terminal.text import time_text
from holdfast.terminal.width import columns_of, cut, distinct_cuts, distinct_endings, hanging, one_line, padded, wrapped

ODD = [
    "abc",
    "日本語",
    "e\u0301",
    "👩‍👩‍👧",
    "\u200b",
    "x" * 300,
    "",
    "ﾊﾝｶｸ",
    "\uff21",
    "\x1b[31mred",
    "two words",
    "a\nb\tc",
]


def plain(lines):
    return [click.unstyle(line) for line in lines]


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("日本語", 6), ("e\u0301", 1), ("", 0), ("\uff21", 2), ("ﾊ", 1), ("🎉!", 3)]
)
def test_the_width_of_text(text, columns):
    """Wide characters take two columns, marks on others none."""
    assert columns_of(text) == columns


def test_text_is_cut_to_a_width_and_filled_up_to_it():
    """A wide character that would stand half outside is left out; nothing joins itself to the sign at the end."""
    assert cut("日本語", 6) == "日本語" and cut("日本語", 5) == "日本…" and cut("日本語", 4) == "日…"
    assert cut("👩‍👩‍👧 family", 5) == "👩‍👩…" and cut("abc def", 5) == "abc…"
    assert padded("日本", 6) == "日本  " and padded("7", 3, right=True) == "  7"


def test_text_is_wrapped_at_words():
    """No word is divided; one that is wider than the line is cut, and so is what comes after the last line."""
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("one two three four", 7, 2) == ["one two", "three …"]
    assert wrapped("incomprehensible", 8) == ["incompr…"] and wrapped("", 5) == [""]
    assert hanging("  name  ", "one two three four five six seven", 30) == [
        "  name  one two three four",
        "        five six seven",
    ]


def test_foreign_text_is_one_harmless_line():
    """Escapes, line ends and control characters are gone, and a huge text is cut before it is searched."""
    assert one_line("\x1b[2J a\n\tb\x00\u202e c ", 50) == "a b c"
    assert one_line("x" * 10**7, 10) == "x" * 9 + "…"


@pytest.mark.parametrize("width", [1, 10, 20, 40, 79, 80, 200, 1000])
def test_tables_of_any_text_are_aligned_and_fit(width):
    """Columns begin at the same place in every line, and no line is wider than the terminal."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    columns = [
        Column("id", most=max(width // 3, 1)),
        Column("n", is_number=True),
        Column("state", is_flexible=True, least=10),
        Column("first", is_flexible=True, is_optional=True),
        Column("last", is_flexible=True, is_optional=True),
    ]
    rows = [[rng.choice(ODD), "7", "failed (why)", rng.choice(ODD), "|end"] for _ in range(30)]
    lines = plain(table_lines(columns, rows, width))
    assert len(lines) == 31
    assert max(map(columns_of, lines)) <= max(width, 11)
    if width >= 40:
        assert {columns_of(line[: line.index("fail")]) for line in lines[1:]} == {lines[0].index("state")}
    if width >= 80:
        assert len({columns_of(line[: line.index("|end")]) for line in lines[1:]}) == 1


def test_columns_without_room_are_left_out_the_first_of_them_first():
    """What remains is wide enough to say something, and has all the room."""
    columns = [Column("a"), *(Column(title, is_flexible=True, is_optional=True) for title in ("in", "out"))]
    row = ["x" * 10, "y" * 30, "z" * 30]
    assert plain(table_lines(columns, [row], 40))[0].split() == ["a", "in", "out"]
    header, line = plain(table_lines(columns, [row], 28))
    assert header.split() == ["a", "out"] and line == f"{'x' * 10}  {'z' * 15}…"


def test_no_color_turns_styles_off(monkeypatch):
    """NO_COLOR is obeyed on a terminal; elsewhere there are no styles anyway."""
    columns, rows = [Column("state", colours={"valid": "green"})], [["valid"]]
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" in "".join(table_lines(columns, rows, 80))
    monkeypatch.setenv("NO_COLOR", "1")
    assert table_lines(columns, rows, 80) == ["state", "valid"]


def test_times_and_widths(monkeypatch):
    """A recorded time without its letters; COLUMNS before the terminal, and 80 where there is neither."""
    assert time_text("2026-11-17T11:32:12+00:00") == "2026-11-17 11:32:12 UTC"
    assert time_text("2026-11-17T11:32:12+02:00") == "2026-11-17T11:32:12+02:00"
    assert time_text(None) == "(not known)"
    for chosen, columns in (("120", 120), ("0", 80), ("-1", 80), ("wide", 80), ("", 80)):
        monkeypatch.setenv("COLUMNS", chosen)
        assert output_columns() == columns


def test_texts_that_begin_alike_show_where_they_differ():
    """Only as far as they are cut, and only those that would look alike."""
    asked = [f"What is the capital of {country}?" for country in ("France", "Finland", "Peru")]
    others = ["What is this?", "How far is it from here to there?"]
    shown = distinct_endings([*asked, *others], 12)
    assert [shown[text] for text in asked] == ["…France?", "…Finland?", "…Peru?"]
    assert [shown[text] for text in others] == ["What is thi…", "How far is…"]
    assert distinct_endings(asked, 40) == {text: text for text in asked}
    assert distinct_endings(["x" * 30 + "a", "x" * 30 + "b"], 10) == {"x" * 30 + "a": "…a", "x" * 30 + "b": "…b"}


def test_the_word_that_sets_a_group_apart_is_kept():
    """Two questions about each country: neither the country nor the question is hidden."""
    asked = ["What is the capital of Portugal? One word.", "What is the capital of Portugal? Choose a letter:"]
    asked += [text.replace("Portugal", "Austria") for text in asked]
    shown = distinct_endings([*asked, "What is the capital of France? One word."], 11)
    assert [shown[text][:4] for text in asked] == ["…Por", "…Por", "…Aus", "…Aus"]
    assert len(set(shown.values())) == 5 and not any(text.startswith("……") for text in shown.values())


def test_texts_that_share_several_beginnings_are_told_apart():
    """However many groups begin alike: nothing is wider than the column, and no two are alike where there is room."""
    rng = random.Random(7)
    words = ["capital", "of", "the", "a", "日本", "river", "x" * 30]
    texts = {" ".join(rng.choices(words, k=rng.randrange(1, 12))) + f" {number}" for number in range(60)}
    for width in (1, 5, 6, 12, 30):
        shown = distinct_endings(texts, width)
        assert max(map(columns_of, shown.values())) <= width, (width, shown)
    assert len(set(distinct_endings(texts, 30).values())) == len(texts)


def test_names_that_differ_look_different():
    """A table with names that begin and end alike shows where they differ."""
    models = ["meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"]
    assert list(distinct_cuts(models, 14).values()) == ["…8B-Instruct", "…70B-Instruct"]
    assert distinct_cuts(["abc", "b" * 20], 9) == {"abc": "abc", "b" * 20: "bbbb…bbbb"}
