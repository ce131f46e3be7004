"""The models of an eval, ready to be asked: each opened, at its own pace, and with so many calls at once.

Of one that is reached elsewhere than before it is known which model has replied so far, so that another one's replies
are not mixed in.
"""

from __future__ import annotations

from holdfast.engine.model_calls.caller import Model
from holdfast.engine.model_calls.rate_limit import RateLimiter
from holdfast.engine.model_calls.served_model import replied_before
from holdfast.engine.planning.prepared_eval import Prepared
from holdfast.engine.scheduling.clock import Clock
from holdfast.engine.scheduling.slots import Limit
from holdfast.run.core.reader import RunReader


def ready_models(prepared: Prepared, reader: RunReader, clock: Clock) -> dict[str, Model]:
    """The models by name; their providers are opened if they are not open yet."""
    prepared.open_models()
    models: dict[str, Model] = {}
    expected = replied_before(reader, prepared.spec)
    for name, provider in prepared.providers.items():
        model = prepared.spec.models[name]
        # A model in this machine's memory knows best how many requests it can work on.
        limit = model.concurrency_limit or getattr(provider, "concurrency_limit", None)
        pace, level = RateLimiter(model.rate_limit, clock), Limit(name, limit)
        models[name] = Model(name, model, provider, pace, level, expected=expected.get(name, ""))
    return models
