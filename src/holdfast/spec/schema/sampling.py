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
    """What one sampling may take, judges included; an absent one is no cap. Once one is reached, nothing is asked."""

    calls: Annotated[LargeCount | None, Drift.IDENTITY] = None
    tokens: Annotated[LargeCount | None, Drift.IDENTITY] = None
    cost: Annotated[Cost | None, Drift.IDENTITY] = None
    time: Annotated[Seconds | None, Drift.IDENTITY] = None
    """In seconds."""


class SamplingSpec(Block, frozen=True):
    """The `sampling` of a task; without it, one call gives the answer."""

    may_be_empty: ClassVar[bool] = False

    strategy: Annotated[StrategyName, Drift.IDENTITY]
    loop_budget: Annotated[Count, Drift.IDENTITY] = 1
    """The depth: how many turns a lane may take, each after the last."""

    concurrency_budget: Annotated[Count, Drift.IDENTITY] = 1
    """The breadth: how many lanes run at once. It multiplies requests: with 4, up to 4 calls are made and paid for
    where one would do, and `loop_budget` times as many in all.
    """

    selection: Annotated[SelectionName | None, Drift.IDENTITY] = None
    """Which valid candidate is taken: the first to arrive (the default, and not deterministic with several lanes), the
    one with the lowest turn and lane, or the one with the highest score.
    """

    requirements: Annotated[list[NamedCheck], Drift.IDENTITY] = msgspec.field(default_factory=list)
    """What a candidate must meet: the name of a requirement, or its name with its arguments."""

    budget: Annotated[SamplingCaps, Drift.IDENTITY] = SamplingCaps()
    short_circuit: Annotated[bool, Drift.IDENTITY] = False
    """Whether checking a candidate ends at the first requirement that it does not meet."""

    vote: Annotated[Literal["majority", "similarity"] | None, Drift.IDENTITY] = None
    """For the strategy vote: equal answers vote together (the default), or similar ones."""

    extract: Annotated[Words | None, Drift.IDENTITY] = None
    """For the strategy vote: a regular expression for the part of a reply that votes."""

    scorer: Annotated[NamedCheck | None, Drift.IDENTITY] = None
    """For the strategy best_of_n: a requirement that gives a score, such as a judge or a function."""

    escalate_to: Annotated[list[Words] | None, Drift.IDENTITY] = None
    """For the strategy escalate: names of models, each asked once the one before it makes no progress."""

    def checks(self) -> Iterator[tuple[str, NamedCheck]]:
        """Every requirement with where it stands, the scorer included."""
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
