"""Inspect's `model_graded_qa` on replies that are given: its own pattern, values and majority."""

from pathlib import Path

from inspect_ai import Task
from inspect_ai import eval as inspect_eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, ModelAPI, ModelOutput, ModelUsage, get_model, modelapi
from inspect_ai.scorer import model_graded_qa, value_to_float
from inspect_ai.scorer._model import DEFAULT_GRADE_PATTERN
from inspect_ai.solver import solver

GRADE_PATTERN = DEFAULT_GRADE_PATTERN
_VALUES = value_to_float()


@solver
def nothing():
    """No model is asked: only the judges are of interest."""

    async def solve(state, generate):
        return state

    return solve


def inspect_grades(cases: list[str] | list[list[str]], logs: Path) -> list[float | None]:
    """For each case, the value of its judge, or of its panel; None where Inspect leaves it unscored."""
    panels = [[case] if isinstance(case, str) else case for case in cases]
    judges = [_judge([panel[place] for panel in panels]) for place in range(len(panels[0]))]
    samples = [Sample(input=f"question {number}", target="x", id=number) for number in range(len(cases))]
    scorer = model_graded_qa(
        grade_pattern=GRADE_PATTERN, partial_credit=True, model=judges if len(judges) > 1 else judges[0]
    )
    task = Task(dataset=MemoryDataset(samples), solver=nothing(), scorer=scorer)
    (log,) = inspect_eval(task, model="mockllm/model", log_dir=str(logs), display="none", max_samples=1)
    if log.status != "success":
        raise SystemExit(f"Inspect could not judge: {log.error.message[:300] if log.error else log.status}")
    return [_value(sample) for sample in sorted(log.samples, key=lambda sample: sample.id)]


@modelapi(name="replies")
class Replies(ModelAPI):
    """Gives the replies in turn; one of Inspect's own would ask the network how many tokens they have."""

    def __init__(self, model_name, base_url=None, api_key=None, config=GenerateConfig(), replies=(), **_):  # noqa: B008
        super().__init__(model_name, base_url, api_key, [], config)
        self._replies = iter(replies)

    async def generate(self, input, tools, tool_choice, config):
        output = ModelOutput.from_content(self.model_name, next(self._replies))
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output


def _judge(replies):
    return get_model("replies/judge", replies=replies, memoize=False)


def _value(sample) -> float | None:
    (score,) = sample.scores.values()
    if score.is_unscored if hasattr(score, "is_unscored") else not isinstance(score.value, str):
        return None
    # A small letter has no value of its own.
    return {"C": 1.0, "P": 0.5, "I": 0.0}.get(score.value, score.value)
