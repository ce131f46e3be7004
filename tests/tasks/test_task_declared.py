"""Tasks from an eval file: what is asked, what is expected, what is refused."""

import asyncio
from itertools import product

import msgspec
import pytest
from dataset_files import open_rows, write_jsonl

from holdfast.errors import ConfigurationError
from holdfast.models.message import Message, Reply
from holdfast.spec import DatasetSpec, TaskSpec
from holdfast.tasks.answer import Answer
from holdfast.tasks.from_spec import adapt_task, build_task
from holdfast.tasks.prompt import InvalidPrompt, as_messages
from holdfast.tasks.sample import Sample
from holdfast.tasks.scorers.exact import exact
from holdfast.tasks.solver import generate
from holdfast.tasks.task import Task

COUNTRIES = [{"country": "France", "capital": "Paris"}, {"country": "Italy", "capital": "Rome"}]


def declared(tmp_path, rows=COUNTRIES, dataset=None, **task):
    spec = msgspec.convert({"dataset": "d", "scorers": ["exact"], **task}, TaskSpec)
    path = write_jsonl(tmp_path / "d.jsonl", rows)
    made = build_task("capitals", spec, msgspec.convert({"path": str(path), **(dataset or {})}, DatasetSpec))
    return made, made.bind(open_rows(path))


def asked(made, dataset, position=0, **axes):
    return made.solver.messages(dataset[position], axes)


def refusal(tmp_path, rows=COUNTRIES, dataset=None, **task):
    with pytest.raises(ConfigurationError) as caught:
        planned(tmp_path, rows, dataset, **task)
    return str(caught.value)


def planned(tmp_path, *given, **task):
    made, samples = declared(tmp_path, *given, **task)
    made.check(samples)


class FakeTrial:
    """A trial that replies with what it was asked."""

    def __init__(self, sample, **axes):
        self.sample = sample
        self.axes = axes
        self.asked = []

    async def generate(self, prompt, **generation):
        self.asked.append((prompt, generation))
        return Reply(prompt[-1].text, finish="stop")


def test_prompt_and_target_are_made_from_the_rows_fields(tmp_path):
    """A prompt and a target template are all that a task needs."""
    made, samples = declared(tmp_path, prompt="Capital of {country}?", target="{capital}")
    made.check(samples)
    assert asked(made, samples) == (Message("user", "Capital of France?"),)
    assert [sample.target for sample in samples] == ["Paris", "Rome"]
    assert samples[0].input == "Capital of France?"


def test_without_a_prompt_the_input_is_asked(tmp_path):
    """A dataset with inputs needs no prompt."""
    made, samples = declared(tmp_path, [{"input": "1 {+} 1?", "target": "2"}])
    assert asked(made, samples) == (Message("user", "1 {+} 1?"),)


def test_system_and_examples_go_before_the_prompt(tmp_path):
    """System text, worked examples as turns, then the question."""
    made, samples = declared(
        tmp_path,
        prompt="{country}?",
        target="{capital}",
        system="Answer about {country}.",
        few_shot=[{"input": "Spain?", "output": "Madrid"}, {"input": "{x}", "output": "{y}"}],
    )
    assert [(message.role, message.content) for message in asked(made, samples)] == [
        ("system", "Answer about France."),
        ("user", "Spain?"),
        ("assistant", "Madrid"),
        ("user", "{x}"),
        ("assistant", "{y}"),
        ("user", "France?"),
    ]


def test_examples_may_be_text_before_the_question(tmp_path):
    """With a template, examples are part of the prompt."""
    made, samples = declared(
        tmp_path,
        prompt="Q: {country}",
        target="{capital}",
        few_shot=[{"input": "Spain", "output": "Madrid"}],
        few_shot_template="Q: {input}\nA: {output}",
    )
    assert asked(made, samples) == (Message("user", "Q: Spain\nA: Madrid\n\nQ: France"),)


@pytest.mark.parametrize(
    ("prompt", "values"),
    [
        (["{country}?", "Say: {country}"], ["1", "2"]),
        ({"short": "{country}?", "long": "Say: {country}"}, ["short", "long"]),
    ],
)
def test_several_prompts_are_an_axis(tmp_path, prompt, values):
    """A list is numbered, a map is named; the axis value picks the prompt."""
    made, samples = declared(tmp_path, prompt=prompt, target="{capital}")
    assert made.axes == {"prompt": values}
    assert asked(made, samples, prompt=values[0]) == (Message("user", "France?"),)
    assert asked(made, samples, prompt=values[1]) == (Message("user", "Say: France"),)
    with pytest.raises(ConfigurationError, match="no prompt variant"):
        asked(made, samples, prompt="other")


def test_one_prompt_is_no_axis(tmp_path):
    """A single prompt adds nothing to the grid."""
    assert declared(tmp_path, prompt="{country}", target="{capital}")[0].axes == {}


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ({"choices": "options"}, "Pick.\n\nA) p\nB) q"),
        ({"choices": ["{x}", "never"]}, "Pick.\n\nA) left\nB) never"),
        ({"choices": "options", "prompt": "From:\n{choices}\nPick."}, "From:\nA) p\nB) q\nPick."),
        ({"choices": "options", "prompt": "{choices.1} or {choices.0}?"}, "q or p?"),
    ],
)
def test_choices_are_lettered_below_the_prompt_or_where_it_says(tmp_path, task, expected):
    """Options come from a column or from the task, and are shown once."""
    rows = [{"options": ["p", "q"], "x": "left", "target": "A"}]
    made, samples = declared(tmp_path, rows, prompt=task.pop("prompt", "Pick."), scorers=["choice"], **task)
    made.check(samples)
    assert asked(made, samples) == (Message("user", expected),)


def test_a_target_template_may_name_a_list(tmp_path):
    """A template that is one field alone keeps the list of acceptable answers."""
    made, samples = declared(tmp_path, [{"q": "x", "answers": ["a", "b"]}], prompt="{q}", target="{answers}")
    made.check(samples)
    assert samples[0].target == ["a", "b"]


def test_operations_and_limit_choose_the_samples(tmp_path):
    """The limit takes the first so many after the operations."""
    rows = [{"input": str(number), "target": "x"} for number in range(20)]
    operations = [{"shuffle": {"seed": 4}}, {"slice": {"num": 10}}]
    _, ten = declared(tmp_path, rows, {"operations": operations})
    _, five = declared(tmp_path, rows, {"operations": operations}, limit=5)
    assert [sample.input for sample in five] == [sample.input for sample in ten][:5]
    assert len(ten) == 10


@pytest.mark.parametrize(
    ("rows", "task", "said"),
    [
        (COUNTRIES, {"prompt": "{contry}", "target": "{capital}"}, ["d.jsonl row 1", "'contry'", "'country'"]),
        (COUNTRIES, {"prompt": "{country}", "target": "{capitol}"}, ["target of the task 'capitals'", "'capital'"]),
        (COUNTRIES, {"prompt": "{country}"}, ["needs a target", "row 1"]),
        (COUNTRIES, {"target": "{capital}"}, ["no field 'input'", "row 1"]),
        ([*COUNTRIES, {"country": "Peru"}], {"prompt": "{country}", "target": "{capital}"}, ["row 3", "'capital'"]),
        (COUNTRIES, {"prompt": "{country", "target": "{capital}"}, ["tasks.capitals", "single '{'"]),
        (COUNTRIES, {"prompt": "{country}", "target": "x", "scorers": []}, ["no scorer"]),
        (COUNTRIES, {"prompt": "{country}", "target": "x", "scorers": ["exat"]}, ["tasks.capitals.scorers", "'exact'"]),
        (COUNTRIES, {"prompt": "{country}", "target": "x", "scorers": ["exact", "exact"]}, ["Two scorers"]),
        (COUNTRIES, {"prompt": "{country}", "target": "x", "scorers": ["choice"]}, ["needs choices"]),
        (COUNTRIES, {"prompt": ["{country}", "{input}"], "target": "x"}, ["no field 'input'"]),
        (COUNTRIES, {"prompt": "{country}", "system": "{who}", "target": "x"}, ["system text", "'who'"]),
    ],
)
def test_what_cannot_be_asked_or_judged_is_refused_when_planned(tmp_path, rows, task, said):
    """Every sample is checked before the first call, and a refusal names its row and field."""
    message = refusal(tmp_path, rows, **task)
    for part in said:
        assert part in message


def test_a_conversation_as_input_is_continued(tmp_path):
    """Messages in the dataset are asked as they are, after system and examples; a prompt has no place there."""
    rows = [{"input": [{"role": "user", "content": "hi"}], "target": "x"}]
    made, samples = declared(tmp_path, rows, system="Be brief.")
    assert asked(made, samples) == (Message("system", "Be brief."), Message("user", "hi"))
    assert "row 1 is a list of messages" in refusal(tmp_path, rows, prompt="Say {input}")


def test_the_solver_asks_once_and_returns_the_reply(tmp_path):
    """What is sent is what `messages` says, with the generation parameters of the solver."""
    made, samples = declared(tmp_path, prompt=["{country}?", "{country}!"], target="{capital}")
    trial = FakeTrial(samples[1], prompt="2")
    reply = asyncio.run(made.solver(trial))
    assert reply.text == "Italy!"
    hot = generate("{input}", temperature=0.7)
    other = FakeTrial(Sample("x"))
    asyncio.run(hot(other))
    assert other.asked == [((Message("user", "x"),), {"temperature": 0.7})]


def test_the_identity_of_a_trial_is_what_is_asked(tmp_path):
    """Adding a variant or a scorer changes no other trial; a changed prompt changes its own."""

    def identity(prompt, value):
        made, samples = declared(tmp_path, prompt=prompt, target="{capital}")
        return made.solver_identity(samples[0], {"prompt": value})

    first = identity({"a": "{country}?", "b": "{country}!"}, "a")
    assert first == identity({"a": "{country}?", "b": "Other {country}", "c": "{country}"}, "a")
    assert first == identity({"a": "France?", "b": "x"}, "a")
    assert first != identity({"a": "{country}", "b": "{country}!"}, "a")


def test_an_entry_that_uses_a_python_task_may_set_what_it_leaves_open():
    """Scorers, epochs, limit and system of the entry hold; what it leaves out stays as the task has it."""
    made = Task(samples=[Sample("x", target="y")], solver=generate(), scorers=exact(), epochs=3, system="S")
    spec = msgspec.convert({"use": "a.py", "limit": 5, "scorers": ["includes"]}, TaskSpec)
    adapted = adapt_task("entry", spec, made)
    assert (adapted.name, adapted.epochs, adapted.limit, adapted.system) == ("entry", 3, 5, "S")
    assert [scorer.name for scorer in adapted.scorers] == ["includes"]
    assert [scorer.name for scorer in adapt_task("e", TaskSpec(use="a.py"), made).scorers] == ["exact"]


def test_a_prompt_becomes_messages_with_the_system_text_before_them():
    """A text, a message or several; a system text of their own is left alone."""
    user, own = Message("user", "x"), Message("system", "own")
    assert as_messages("x") == as_messages(user) == as_messages([user]) == (user,)
    assert as_messages("x", "S") == (Message("system", "S"), user)
    assert as_messages([own, user], "S") == (own, user)


@pytest.mark.parametrize("prompt", [None, 5, [], ["x"], {"role": "user"}, Answer("x")])
def test_what_is_no_prompt_is_a_type_error(prompt):
    """A solver that asks with something else is told so."""
    with pytest.raises(InvalidPrompt):
        as_messages(prompt)


VALUES = ["Paris", "", "7", "A", 7, 7.5, True, None, ["Paris"], ["Paris", {}], {"a": "b"}, '["x", "y"]', "..."]
"""What may stand in a column; `...` stands for a row without it."""


@pytest.mark.parametrize("scorer", ["exact", "includes", {"regex": {"pattern": "x"}}], ids=str)
@pytest.mark.parametrize("column", ["country", "capital", "choices", "options", "scoring", "metadata", "id", "input"])
def test_one_bad_row_among_others_is_refused_wherever_it_stands(tmp_path, scorer, column):
    """The check looks at one row of each kind where that is enough: it refuses what a check of every row refuses."""
    fields = {"fields": {"choices": "options"}} if column == "options" else None
    task = {"prompt": "{country}?", "target": "{capital}", "scorers": [scorer]}
    for number, (one, other) in enumerate(product(VALUES, repeat=2)):
        rows = [{"country": f"c{place}", "capital": "Paris", "note": place} for place in range(3)]
        for row, value in zip(rows, (one, other, one), strict=True):
            row.update({} if value == "..." else {column: value})
        folder = tmp_path / str(number)
        folder.mkdir()
        assert refused_by_check(folder, rows, fields, task) == refused_by_every_row(folder, rows, fields, task)


def refused_by_check(folder, rows, fields, task):
    try:
        planned(folder, rows, fields, **task)
    except ConfigurationError as error:
        return str(error)
    return ""


def refused_by_every_row(folder, rows, fields, task):
    try:
        made, samples = declared(folder, rows, fields, **task)
        for position in range(len(samples)):
            made.check_sample(samples[position], samples.place(position))
    except ConfigurationError as error:
        return str(error)
    return ""
