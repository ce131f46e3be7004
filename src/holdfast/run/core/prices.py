"""What tokens cost: recorded usage by the newest recorded price, for every model by itself.

There is a price for input and one for output tokens; cached and reasoning tokens are parts of those and cost as much.
If tokens of a kind without a price were used, the cost is unknown: never 0, and never the sum of the rest.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from holdfast.models.message import Usage
from holdfast.run.core.records import ShareKey

_MILLION = 1e6
USD = "USD"
"""The currency of an eval that names none."""
_KINDS = {"input": "input_tokens", "output": "output_tokens"}


class Cost(NamedTuple):
    """A cost, or why it is unknown."""

    amount: float | None
    """None where it is unknown."""
    unpriced: tuple[str, ...] = ()
    """The models without a price, or without one for a kind of tokens that they used; only where there are prices."""
    unmetered: tuple[str, ...] = ()
    """The models with a price whose replies did not all have a usage that can be read."""

    @property
    def warning(self) -> str:
        """Why the cost is unknown; empty where it is known, or where no price is given at all."""
        if self.unpriced:
            return f"The cost is unknown: no price is set for {', '.join(self.unpriced)}."
        if self.unmetered:
            return f"The cost is unknown: not every reply of {', '.join(self.unmetered)} has a usage that can be read."
        return ""


class Prices:
    """The prices in a run's configuration, by model; an invalid one counts as no price."""

    def __init__(
        self, config: Mapping[str, Any], unmetered: Collection[str] = (), under_test: Collection[str] = ()
    ) -> None:
        """`unmetered` are models with replies of unknown usage; those not under test may be part of any cost."""
        self._unmetered, self._under_test = unmetered, under_test
        models = config.get("models")
        entries = models.items() if isinstance(models, dict) else ()
        currency = config.get("currency")
        self.currency = currency if isinstance(currency, str) and currency else USD
        """Of all prices."""
        self._by_model = {str(name): _price(entry.get("price")) for name, entry in entries if isinstance(entry, dict)}

    def cost(self, shares: Mapping[ShareKey, Usage], models: Iterable[str]) -> Cost:
        """What replies of this run cost; those of other runs cost nothing.

        `models` are those that it is about: where nothing was used, the cost is 0 if one of them has a price.
        """
        amounts: list[float] = []
        unpriced: list[str] = []
        for (model, is_reused), usage in sorted(shares.items(), key=lambda share: share[0]):
            if not is_reused:
                amounts.append(self._amount(model, usage))
                unpriced += self._unpriced(model, usage)
        involved = {*models, *(model for model, is_reused in shares if not is_reused)}
        if not any(self._by_model.get(model) for model in {*involved, *(model for model, _ in shares)}):
            return Cost(None)
        unmetered = self._unmetered_of(involved) if self._unmetered else ()
        if unpriced or unmetered:
            return Cost(None, tuple(unpriced), unmetered)
        return Cost(_rounded(math.fsum(amounts)))

    def _unmetered_of(self, involved: set[str]) -> tuple[str, ...]:
        found = (model for model in self._unmetered if model in involved or model not in self._under_test)
        return tuple(f"models.{model}" for model in sorted(found) if self._by_model.get(model))

    def _amount(self, model: str, usage: Usage) -> float:
        price = self._by_model.get(model, {})
        amount = usage.input_tokens * price.get("input", 0.0) + usage.output_tokens * price.get("output", 0.0)
        return amount / _MILLION

    def _unpriced(self, model: str, usage: Usage) -> list[str]:
        price = self._by_model.get(model, {})
        missing = [kind for kind, tokens in _KINDS.items() if getattr(usage, tokens) and kind not in price]
        if not missing or not price:
            return [f"models.{model}"] if missing else []
        return [f"the {kind} tokens of models.{model}" for kind in missing]


def _rounded(amount: float) -> float:
    """Twelve digits: far more than a price has, and without the noise of binary fractions in the last ones."""
    return float(f"{amount:.12g}")


def _price(price: Any) -> dict[str, float]:
    """The price of each kind of tokens, as far as it is a number."""
    if not isinstance(price, dict):
        return {}
    return {kind: float(price[kind]) for kind in _KINDS if _is_price(price.get(kind))}


def _is_price(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
