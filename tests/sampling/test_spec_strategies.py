"""Strategies from eval files, and the solver that draws by them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest

from holdfast import Sample, Task, exact, generate
from holdfast.engine.planning.inputs import FreshInputs
from holdfast.engine.planning.prepared_eval import task_of_entry
from holdfast.errors import ConfigurationError
from holdfast.sampling.from_spec import build_strategy
from holdfast.sampling.hooks import SamplingHook
from holdfast.sampling.requirements.requirement import Requirement
from holdfast.sampling.requirements.verdict import Verdict, VerdictKind
from holdfast.sampling.solver import SampledGenerate, sampled
from holdfast.sampling.strategies.best_of_n import BestOfN
from holdfast.sampling.strategies.escalate import Escalate
from holdfast.sampling.strategies.repair import MultiTurn, Rejection, Repair
from holdfast.sampling.strategies.vote import Vote
from holdfast.spec import EvalSpec, SamplingSpec, resolve, typed_eval
from holdfast.tasks.solver import Generate
from holdfast.tasks.task_code import code_of

KINDS = {"rejection": Rejection, "repair": Repair, "multi_turn": MultiTurn, "vote": Vote, "escalate": Escalate}
OWN = {"escalate": {"escalate_to": ["large"]}}


class Judged(Requirement, frozen=True, kw_only=True):
    """Passed always; asks a model of the eval."""

    calls = 2
    model: str = "strict"

    @property
    def models(self) -> tuple[str, ...]:
        return (self.model,)

    def check(self, draft: Any) -> Verdict:  # noqa: ARG002 - all are the same to it
        return Verdict(self.id, VerdictKind.PASSED)

    def identity(self) -> dict[str, Any]:
        return {"requirement": "judged", "model": self.model}


def spec_of(strategy: str, **fields: Any) -> SamplingSpec:
    return msgspec.convert({"strategy": strategy, **OWN.get(strategy, {}), **fields}, SamplingSpec)


def eval_with(sampling: Any, task: dict[str, Any] | None = None) -> EvalSpec:
    model = {"provider": "scripted", "model": "echo"}
    data = {
        "models": {"small": model, "large": model, "strict": model},
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {
            "t": {"models": ["small"], **(task or {"dataset": "rows", "scorers": ["exact"]}), "sampling": sampling}
        },
    }
    return resolve(typed_eval(data))


@pytest.mark.parametrize("name", KINDS)
def test_sampling_31_every_strategy_is_built_from_its_name(name):
    """What stands in a file is what the constructor gets."""
    fields = {"loop_budget": 3, "concurrency_budget": 2, "short_circuit": True, "selection": "deterministic"}
    strategy = build_strategy(spec_of(name, **fields, budget={"calls": 9, "cost": 0.5}), "tasks.t.sampling")
    assert type(strategy) is KINDS[name] and strategy.name == name
    own = strategy.identity()
    assert {key: own[key] for key in fields} == fields
    assert own["budget"] == {"calls": 9, "cost": 0.5}


def test_sampling_31_a_vote_has_its_kind_and_its_pattern():
    """The two fields of a vote reach it; the majority is the default."""
    strategy = build_strategy(spec_of("vote", vote="similarity", extract="a(.)"), "here")
    assert (strategy.by, strategy.extract) == ("similarity", "a(.)")
    assert build_strategy(spec_of("vote"), "here").by == "majority"


def test_sampling_31_an_escalation_has_its_models():
    """In the order of the file."""
    assert build_strategy(spec_of("escalate", loop_budget=3, escalate_to=["b", "a"]), "here").models == ("b", "a")


def test_a_sampled_solver_is_a_generate_for_everything_that_asks():
    """Checks, questions, variants and messages are those of the solver that it draws with."""
    plain = generate({"a": "one {input}", "b": "two {input}"}, system="Be brief.", max_tokens=5)
    solver = sampled(plain, strategy=Repair(loop_budget=2))
    sample = Sample("x", target="x")
    assert isinstance(solver, Generate) and solver.is_sampled
    assert solver.variants == plain.variants
    assert solver.messages(sample, {"prompt": "b"}) == plain.messages(sample, {"prompt": "b"})
    assert solver.question(sample, {"prompt": "a"}) == plain.question(sample, {"prompt": "a"})
    solver.check(sample, "here")


def test_a_sampled_solver_asks_with_its_strategy():
    """Its one call of generate carries the strategy, the requirements, and the parameters of the solver."""
    asked: dict[str, Any] = {}

    class Trial:
        sample, axes = Sample("x"), {}

        async def generate(self, prompt, **options):
            asked.update(options, prompt=prompt)
            return "result"

    strategy, judged = Rejection(loop_budget=2), Judged(id="judged")
    solver = sampled(generate("{input}", max_tokens=5), strategy=strategy, requirements=[judged])
    assert asyncio.run(solver(Trial())) == "result"
    assert asked.pop("prompt")[-1].content == "x"
    assert asked == {"strategy": strategy, "requirements": (judged,), "max_tokens": 5}


def test_the_identity_of_a_sampled_solver_holds_its_strategy():
    """Another budget, selection or requirement is another identity; a plain solver has the one it always had."""
    plain, sample = generate("{input}"), Sample("x")
    solvers = [
        plain,
        sampled(plain, strategy=Repair(loop_budget=2)),
        sampled(plain, strategy=Repair(loop_budget=3)),
        sampled(plain, strategy=MultiTurn(loop_budget=2)),
        sampled(plain, strategy=Repair(loop_budget=2), requirements=[Judged(id="judged")]),
        sampled(plain, strategy=Repair(loop_budget=2, requirements=[Judged(id="judged")])),
        sampled(plain, strategy=BestOfN(scorer=Judged(id="judged"))),
    ]
    identities = [msgspec.json.encode(solver.identity(sample, {}), order="sorted") for solver in solvers]
    assert len(set(identities)) == len(identities)
    assert "sampling" not in plain.identity(sample, {})


def test_the_code_of_a_strategy_of_ones_own_is_part_of_the_identity():
    """Two subclasses that differ in their code alone are not the same."""

    class First(Repair):
        def select_from_failure(self, candidates):
            return 0 * len(candidates)

    class Last(Repair):
        def select_from_failure(self, candidates):
            return len(candidates) - 1

    class Hook(SamplingHook):
        def end(self, event):
            pass

    code = [sampled(generate(), strategy=kind()).draw_identity()["code"] for kind in (First, Last)]
    assert code[0] != code[1]
    assert sampled(generate(), strategy=Rejection(hooks=[Hook()])).draw_identity()["code"]
    assert "code" not in sampled(generate(), strategy=Rejection()).draw_identity()


def test_what_a_strategy_or_a_hook_of_ones_own_holds_is_part_of_the_identity():
    """Equal ones are equal; what a hook notes during the run does not make it another."""

    class Mine(Repair):
        def __init__(self, tone):
            super().__init__()
            self.tone = tone

    class Hook(SamplingHook):
        def __init__(self, number):
            self.number, self.seen = number, []

    def drawn(tone, number):
        return sampled(generate(), strategy=Mine(tone)), sampled(generate(), strategy=Rejection(hooks=[Hook(number)]))

    kind, rude, again = ([one.draw_identity() for one in drawn(*given)] for given in (("a", 1), ("b", 2), ("a", 1)))
    assert kind == again
    assert kind[0] != rude[0] and kind[1] != rude[1]
    hooked = drawn("a", 1)[1]
    before = hooked.draw_identity()
    hooked.strategy.hooks[0].seen.append("an event")
    assert hooked.draw_identity() == before


def test_the_ceiling_of_what_hooks_may_set_is_part_of_the_identity():
    """It decides how much is asked for."""
    identities = [Rejection(budget_ceiling=ceiling).identity() for ceiling in ((4, 1), (2, 1), None, (1, 1))]
    assert identities[0] != identities[1] and identities[2] == identities[3]


def test_models_beside_the_one_under_test_are_known():
    """Larger models first, then judges of requirements and of the scorer, each once."""
    escalate = Escalate(to=["large"], loop_budget=3, requirements=[Judged(id="a"), Judged(id="b", model="large")])
    assert sampled(generate(), strategy=escalate).models == ("large", "strict")
    best = BestOfN(scorer=Judged(id="c", model="critic"))
    assert sampled(generate(), strategy=best, requirements=[Judged(id="d")]).models == ("strict", "critic")
    assert generate().models == ()


async def _own_solver(trial):
    return "x"


@pytest.mark.parametrize("solver", [_own_solver, sampled(generate(), strategy=Rejection())])
def test_only_generate_can_be_sampled(solver):
    """A function, or a solver that draws already, is refused with what to do instead."""
    with pytest.raises(ConfigurationError, match=r"cannot be sampled\. Give generate"):
        sampled(solver, strategy=Rejection())


def test_two_requirements_of_one_id_are_refused_when_the_solver_is_made():
    """Not in the middle of a run."""
    with pytest.raises(ValueError, match="Two requirements have the id 'a'"):
        sampled(generate(), strategy=Rejection(requirements=[Judged(id="a")]), requirements=[Judged(id="a")])


@pytest.mark.parametrize("scorer", [{"regex": "a"}, {"judge": {"model": "large", "criterion": "It is good."}}])
def test_a_scorer_without_a_score_is_refused(scorer):
    """Best of n would choose by nothing; a yes or no ranks nothing either."""
    (name,) = scorer
    spec = SamplingSpec("best_of_n", scorer=scorer)
    with pytest.raises(ConfigurationError) as caught:
        build_strategy(spec, "tasks.t.sampling")
    assert f"tasks.t.sampling.scorer: the requirement {name} gives no score" in str(caught.value)
    assert "scored: true" in str(caught.value)


def python_task(solver: Any) -> Task:
    return Task(name="t", samples=[Sample("x", target="x")], solver=solver, scorers=exact())


@pytest.fixture
def inputs():
    with contextlib.closing(FreshInputs()) as made:
        yield made


def test_a_python_task_that_generates_takes_the_sampling_of_the_file(inputs):
    """Its solver is generate(...), so what stands in the file applies; a second time changes nothing."""
    spec = eval_with({"strategy": "repair", "loop_budget": 2}, {"use": "python:t"})
    task = task_of_entry("t", spec.tasks["t"], spec, inputs, python_task(generate("{input}")))
    assert isinstance(task.solver, SampledGenerate) and task.solver.strategy.loop_budget == 2
    assert task_of_entry("t", spec.tasks["t"], spec, inputs, task).solver is task.solver


@pytest.mark.parametrize(
    ("solver", "why"),
    [(_own_solver, "is code of its own"), (sampled(generate(), strategy=Rejection()), "draws candidates itself")],
)
def test_a_python_task_with_a_solver_of_its_own_refuses_it(solver, why, inputs):
    """The file cannot say how code draws its answers."""
    spec = eval_with({"strategy": "repair"}, {"use": "python:t"})
    with pytest.raises(ConfigurationError) as caught:
        task_of_entry("t", spec.tasks["t"], spec, inputs, python_task(solver))
    assert f"tasks.t.sampling: the solver of this Python task {why}" in str(caught.value)


def test_the_code_record_of_a_sampled_task_has_a_digest_of_its_sampling():
    """It is compared on resume; a task without a sampling has none."""
    plain = code_of(python_task(generate("{input}")), "00")
    first = code_of(python_task(sampled(generate("{input}"), strategy=Repair(loop_budget=2))), "00")
    second = code_of(python_task(sampled(generate("{input}"), strategy=Repair(loop_budget=3))), "00")
    assert "sampling" not in plain.settings
    assert first.settings["sampling"] != second.settings["sampling"]
    assert plain.solver == first.solver
