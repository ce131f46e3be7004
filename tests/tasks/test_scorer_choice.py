"""Multiple choice: what is shown, what the target means, and what an answer picks."""

import pytest
from dataset_files import open_dataset, write_jsonl
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import ConfigurationError
from holdfast.tasks.answer import Answer
from holdfast.tasks.choices import checked_choices, lettered, shuffled, target_index
from holdfast.tasks.sample import Sample
from holdfast.tasks.scorers.choice import choice, picked_letters

CITIES = ["London", "Paris", "New York", "New York City"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("B", "B"),
        ("b", "B"),
        ("(B)", "B"),
        ("**B**", "B"),
        (" B. ", "B"),
        ("B) Paris", "B"),
        ("B: because", "B"),
        ("Answer: B", "B"),
        ("**Answer:** B", "B"),
        ("The answer is (B).", "B"),
        ("The correct answer is option B because of the Seine.", "B"),
        ("the answer is b", "B"),
        (r"So \boxed{B}", "B"),
        (r"So \boxed{\text{B}} rather than (A)", "B"),
        ("Answer: A? No.\nFinal answer: B", "B"),
        ("Paris", "B"),
        ("paris.", "B"),
        ("I would say Paris", "B"),
        ("It is New York City!", "D"),
        ("It must be (C)", "C"),
        ("Answer: A because of the Thames", "A"),
        ("Option B", "B"),
        ("option (b)", "B"),
        ("Option B: the city on the Seine", "B"),
        ("**Option B**", "B"),
        ("I choose B.", "B"),
        ("I would go with (B)", "B"),
        ("My choice is B", "B"),
        ("The right option is **B**.", "B"),
        ("<answer>B</answer>", "B"),
        ("<answer> (B) Paris </answer>", "B"),
        ("<think>Option A? No.</think>\n<answer>Option B</answer>", "B"),
        ("<answer>A</answer> wait\n<ANSWER>Paris</ANSWER>", "B"),
        (r"$\boxed{\text{B}}$", "B"),
        (r"\boxed{\mathrm{(B)}}", "B"),
        (r"\boxed{B. Paris}", "B"),
        (r"\boxed{\text{Option B}}", "B"),
        ("Answer: (B)", "B"),
        ("Answer: $B$", "B"),
        ("[B]", "B"),
        ("B.", "B"),
        ("B\n\nbecause it is the capital", "B"),
        ("It is the capital.\n\n**B**", "B"),
        ("B,", "B"),
        ('Answer: "B"', "B"),
        ('{"answer": "B"}', "B"),
        ("{'answer': 'b'}", "B"),
        ('{"answer": ["B"]}', "B"),
        ('{"answer": "Paris"}', "B"),
        ('```json\n{"reasoning": "Option A is wrong.", "answer": "B"}\n```', "B"),
        ('{"final_answer": "(B) Paris", "confidence": 0.4}', "B"),
        ('{"answer": "A"}\nNo:\n{"answer": "B"}', "B"),
        ('{"answer": null}\nAnswer: B', "B"),
        ("The answer is B, not C", "B"),
        ("The answer is B, C is too far away", "B"),
        ("Answer: B, I think", "B"),
        ("Answer: B and a half", "B"),
        ("The answer is B because A and C are wrong", "B"),
    ],
)
def test_the_picked_letter_is_read(text, expected):
    """Letters alone, in brackets, in boxes, after "answer", and the text of a choice are understood."""
    assert picked_letters(text, CITIES) == {expected}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I do not know",
        "E",
        "Answer: Z",
        "A or B",
        "(A) or (B)",
        "London or Paris",
        "Answer: A. Answer: B.",
        "Option A or option B",
        "Option A is wrong, option B may be right",
        "I choose a city on a river",
        "A\nor\nB",
        "<answer>A or B</answer>",
        "<answer></answer>",
        "Answer: B or C",
        "Answer: B/C",
        "Answer: B, C",
        "Answer: B (or C)",
        "Answer: B or maybe C",
        "Answer: B or A because of the river",
        "Answer: B) Paris or C) New York",
        "Answers: B, C and D",
        "The answer is either B or C.",
        "The best choices are A and B",
        "I choose B or D",
        r"\boxed{B, C}",
        '{"answer": "B or C"}',
        '{"answer": ["B", "C"]}',
        "<think>Answer: B",
        "Answer: B</think>",
        "A city on a river",
        "the answer is a city",
        "The answer is not clear",
        "Berlin",
    ],
)
def test_an_answer_that_picks_none_or_several_is_no_answer(text):
    """Nothing is guessed: an ambiguous answer is wrong, and says why."""
    score = choice()(Answer(text), Sample("?", target="B", choices=CITIES))
    assert (score.value, score.answer) == (False, None)
    assert score.explanation


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Answer: B or C", "The answer is ambiguous: it picks B and C."),
        ("Answers: B, C and D", "The answer is ambiguous: it picks B, C and D."),
        ("I do not know", "It picks no choice."),
    ],
)
def test_a_wrong_answer_without_a_letter_says_why(text, said):
    """An ambiguous answer is told from one that picks nothing."""
    assert choice()(Answer(text), Sample("?", target="B", choices=CITIES)).explanation == said


def test_an_article_is_no_letter():
    """Where choices begin with "a", the word is not taken for the letter."""
    animals = ["a cat", "a dog"]
    assert picked_letters("The answer is A dog", animals) == {"B"}
    assert picked_letters("Answer: A", animals) == {"A"}


def test_choices_without_a_single_word_are_compared_as_they_stand():
    """Options that are only signs can be picked by text too."""
    assert picked_letters("<", ["<", ">", "="]) == {"A"}


@pytest.mark.parametrize(
    ("target", "choices", "expected"),
    [
        ("B", CITIES, 1),
        ("Paris", CITIES, 1),
        (1, CITIES, 1),
        (0, CITIES, 0),
        ("B", ["A", "B", "AB", "O"], 1),
        (4, ["3", "4", "5"], 1),
        ("4", ["3", "4", "5"], 1),
    ],
)
def test_a_target_means_a_letter_a_text_or_a_position(target, choices, expected):
    """Each usual way of giving the right choice is understood."""
    assert target_index(Sample("?", target=target, choices=choices)) == expected


@pytest.mark.parametrize(
    ("target", "choices", "said"),
    [
        ("A", ["B", "A"], "A or B"),
        (2, ["1", "2", "3"], "B or C"),
        ("E", CITIES, "not among its 4 choices"),
        (4, CITIES, "not among its 4 choices"),
        ("Berlin", CITIES, "not among its 4 choices"),
        (None, CITIES, "needs a target"),
        ("A", None, "needs choices"),
    ],
)
def test_a_target_that_means_no_single_choice_is_refused_before_the_run(target, choices, said):
    """An ambiguous or unknown target is a mistake of the dataset, named by row."""
    with pytest.raises(ConfigurationError, match=said) as caught:
        choice().check(Sample("?", target=target, choices=choices), "row 5")
    assert "row 5" in str(caught.value)


def test_the_letter_is_compared_with_the_target():
    """The score is true if, and only if, the right choice was picked."""
    sample = Sample("?", target="Paris", choices=CITIES)
    assert choice()(Answer("B"), sample).value is True
    assert choice()(Answer("C"), sample).value is False


def test_choices_are_shown_with_letters():
    """One option to a line."""
    assert lettered(["yes", "no"]) == "A) yes\nB) no"


@pytest.mark.parametrize("value", ["yes", ["only"], [], ["a", "a"], ["a", None], {"A": "x"}, ["x"] * 27, "[1"])
def test_choices_that_are_none_are_refused(value):
    """Between 2 and 26 different texts are asked for."""
    with pytest.raises(ConfigurationError, match="row 1"):
        checked_choices(value, "row 1")


@given(
    st.lists(
        st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=2), min_size=2, max_size=26, unique=True
    ),
    st.data(),
)
@settings(max_examples=60, deadline=None)
def test_shuffled_choices_keep_the_right_one_right(choices, data):
    """Whatever the order, the target means the same text, and the order is the same every time."""
    right = data.draw(st.integers(0, len(choices) - 1))
    sample = Sample("?", target=choices[right], choices=choices)
    first = shuffled(sample, 7, "key")
    assert first.choices[target_index(first)] == choices[right]
    assert sorted(first.choices) == sorted(choices)
    assert shuffled(sample, 7, "key") == first


def test_each_sample_has_an_order_of_its_own(tmp_path):
    """Choices are shuffled by seed and key: not all samples alike, and the same in every session."""
    letters = ["p", "q", "r", "s"]
    rows = [{"id": f"s{number}", "input": "?", "choices": letters, "target": "p"} for number in range(20)]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    orders = [tuple(sample.choices) for sample in open_dataset(path, shuffle_choices=1)]
    assert len(set(orders)) > 5
    assert orders == [tuple(sample.choices) for sample in open_dataset(path, shuffle_choices=1)]
    assert orders != [tuple(sample.choices) for sample in open_dataset(path, shuffle_choices=2)]


def test_a_choice_that_is_called_option_is_picked_by_its_text():
    """The text of a choice comes before the letter that it may seem to name."""
    assert picked_letters("Option B", ["Option B", "Option A"]) == {"A"}


def test_its_scores_are_those_of_a_new_version():
    """It reads more answers than before: a resume of an older run says so."""
    assert choice().identity()["revision"] == 3
