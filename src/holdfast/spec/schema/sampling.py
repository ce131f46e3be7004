"""How the answer of a task is drawn: several candidates, what they must meet, and which of them is chosen."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from holdfast.spec.schema.drift import Block, Drift
from holdfast.spec.schema.field_types import Cost, Count, LargeCount, Seconds, Words

StrategyName = Literal["rejection", "repair", "multi_turn", "vote", "best_of_n", "escalate"]
SelectionName = Literal["first", "deterministic", "best"]
NamedCheck = str | dict[str, Any]
"""A requirement as a file gives it: its name, or its name with its arguments."""


class SamplingCaps(Block, frozen=True):
    """What one sampling may use, judges included. A cap that is left out does not apply."""

    calls: Annotated[LargeCount | None, Drift.IDENTITY] = None
    """At most this many calls of models. Example: `10`"""

    tokens: Annotated[LargeCount | None, Drift.IDENTITY] = None
    """At most this many tokens. Example: `20000`"""

    cost: Annotated[Cost | None, Drift.IDENTITY] = None
    """At most this much money, in the currency of the prices. Every model that is called needs a `price`.
    Example: `0.05`
    """

    time: Annotated[Seconds | None, Drift.IDENTITY] = None
    """At most this many seconds. Example: `2m`"""


class SamplingSpec(Block, frozen=True):
    """How several candidates are drawn, and which of them becomes the answer; see [sampling.md](sampling.md)."""

    may_be_empty: ClassVar[bool] = False

    strategy: Annotated[StrategyName, Drift.IDENTITY]
    """How candidates follow from one another: `rejection` asks again from scratch, `repair` and `multi_turn` show the
    model what was wrong, `vote` takes the most frequent answer, `best_of_n` the one with the highest score, `escalate`
    moves to a larger model.
    Example: `repair`
    """

    loop_budget: Annotated[Count, Drift.IDENTITY] = 1
    """The depth: how many turns each lane may take, one after the other. Example: `3`"""

    concurrency_budget: Annotated[Count, Drift.IDENTITY] = 1
    """The breadth: how many lanes run at once. It multiplies calls and cost: with 4, up to 4 times `loop_budget` calls
    are made.
    Example: `4`
    """

    selection: Annotated[SelectionName | None, Drift.IDENTITY] = None
    """Which valid candidate becomes the answer: the first to arrive (not reproducible with several lanes), the one with
    the lowest turn and lane, or the one with the highest score. Default: first, or deterministic in a deterministic
    eval.
    Example: `deterministic`
    """

    requirements: Annotated[list[NamedCheck], Drift.IDENTITY] = msgspec.field(default_factory=list)
    """What a candidate must meet: names of requirements, or a name with its arguments; see Requirements.
    Example: `[python, {length: {max: 200}}]`
    """

    budget: Annotated[SamplingCaps, Drift.IDENTITY] = SamplingCaps()
    """What one sampling may use, calls of judges included. When one cap is reached, no further call is made. Default:
    no cap.
    Example: `{calls: 10, time: 2m}`
    """

    short_circuit: Annotated[bool, Drift.IDENTITY] = False
    """Whether checking a candidate ends at the first requirement that it does not meet. Example: `true`"""

    vote: Annotated[Literal["majority", "similarity"] | None, Drift.IDENTITY] = None
    """For the strategy `vote`: equal answers vote together, or similar ones do. Default: majority.
    Example: `similarity`
    """

    extract: Annotated[Words | None, Drift.IDENTITY] = None
    """For the strategy `vote`: a regular expression for the part of a reply that votes. Default: the whole reply.
    Example: `'Answer: (.*)'`
    """

    scorer: Annotated[NamedCheck | None, Drift.IDENTITY] = None
    """For the strategy `best_of_n`, which needs it: a requirement that gives a score, such as a judge with `scored:
    true` or a function.
    Example: `{function: checks.py:quality}`
    """

    escalate_to: Annotated[list[Words] | None, Drift.IDENTITY] = None
    """For the strategy `escalate`, which needs it: names of models, each asked when the one before it makes no
    progress.
    Example: `[large]`
    """

    def checks(self) -> Iterator[tuple[str, NamedCheck]]:
        """Every requirement with its place, the scorer included."""
        for index, given in enumerate(self.requirements):
            yield f"requirements[{index}]", given
        if self.scorer is not None:
            yield "scorer", self.scorer

    def other_models(self) -> Iterator[tuple[str, str]]:
        """The models that are asked beside the one under test, with where each is named: judges, then larger ones."""
        for at, given in self.checks():
            if isinstance(given, dict):
                for name, arguments in given.items():
                    model = arguments.get("model") if isinstance(arguments, dict) else None
                    if isinstance(model, str):
                        yield f"{at}.{name}.model", model
        for index, model in enumerate(self.escalate_to or ()):
            yield f"escalate_to[{index}]", model


EXTRA_FIELDS: dict[str, tuple[str, ...]] = {
    "vote": ("vote", "extract"),
    "best_of_n": ("scorer",),
    "escalate": ("escalate_to",),
}
"""By strategy, the fields that it alone has a use for."""
REQUIRED_FIELDS: dict[str, str] = {"best_of_n": "scorer", "escalate": "escalate_to"}
"""By strategy, the field that it cannot do without."""
LEAST_ESCALATING_TURNS = 3
"""A model is replaced after two turns that miss the same, so the next one has the third turn at the earliest."""
SELECTIONS: dict[str, tuple[str, ...]] = {"vote": ("first", "deterministic"), "best_of_n": ()}
"""By strategy, the selections that mean something to it; all of them, where none are listed."""
