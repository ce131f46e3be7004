"""Names of other tools become names that a run can have, and different ones stay different."""

from __future__ import annotations

import pytest

from holdfast.interop.importing.names import scorer_name, valid_name


@pytest.mark.parametrize("texts", [("a b", "a  b", "a\nb", "a\tb"), ("x" * 130, "x" * 131), ("a\ud800", "a\ud801")])
def test_different_texts_have_different_names(texts):
    names = {valid_name(text) for text in texts}
    assert len(names) == len(texts)
    assert all(len(name) <= 120 and name.isprintable() for name in names)


def test_different_scorers_have_different_names():
    texts = ("a.b", "a/b", "a@b", "a/b ", "a / b", "x" * 130 + "/", "x" * 130 + "@")
    names = {scorer_name(text) for text in texts}
    assert len(names) == len(texts)
    assert all(len(name) <= 120 and not {"/", "@"} & set(name) for name in names)


def test_a_name_that_can_stay_stays():
    assert (valid_name(" a b "), scorer_name("a.b"), valid_name(" "), scorer_name("")) == (
        "a b",
        "a.b",
        "unnamed",
        "score",
    )
