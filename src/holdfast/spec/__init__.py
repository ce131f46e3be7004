"""What was asked: the schema with a drift class on every field, loading, resolving."""

from typing import TYPE_CHECKING

from holdfast.lazy_names import load_lazily

if TYPE_CHECKING:
    from holdfast.spec.canonical import canonical_bytes, eval_text, plain_data
    from holdfast.spec.loading.flags import eval_from_flags, parse_argument, parse_arguments
    from holdfast.spec.loading.load import load_eval, parse_eval, typed_eval
    from holdfast.spec.resolved_eval import resolve
    from holdfast.spec.schema.agent import AgentLimits, AgentSpec
    from holdfast.spec.schema.dataset import DatasetSpec, Filter, Operation, Repeat, Shuffle, Slice
    from holdfast.spec.schema.drift import Block, Drift
    from holdfast.spec.schema.eval import EvalSpec
    from holdfast.spec.schema.introspect import Field, FieldPlace, schema_fields, schema_places
    from holdfast.spec.schema.model import Generation, ModelSpec, Price, RateLimit, Timeouts
    from holdfast.spec.schema.runner import RunnerSpec, StageLimits, TaskRunner
    from holdfast.spec.schema.sampling import SamplingSpec
    from holdfast.spec.schema.task import Shot, TaskSpec, TrialLimits
    from holdfast.spec.schema.workspace import WorkspaceSpec

__all__ = [
    "AgentLimits",
    "AgentSpec",
    "Block",
    "DatasetSpec",
    "Drift",
    "EvalSpec",
    "Field",
    "FieldPlace",
    "Filter",
    "Generation",
    "ModelSpec",
    "Operation",
    "Price",
    "RateLimit",
    "Repeat",
    "RunnerSpec",
    "SamplingSpec",
    "Shot",
    "Shuffle",
    "Slice",
    "StageLimits",
    "TaskRunner",
    "TaskSpec",
    "Timeouts",
    "TrialLimits",
    "WorkspaceSpec",
    "canonical_bytes",
    "eval_from_flags",
    "eval_text",
    "load_eval",
    "parse_argument",
    "parse_arguments",
    "parse_eval",
    "plain_data",
    "resolve",
    "schema_fields",
    "schema_places",
    "typed_eval",
]

_HOMES = {
    "holdfast.spec.canonical": ("canonical_bytes", "eval_text", "plain_data"),
    "holdfast.spec.loading.flags": ("eval_from_flags", "parse_argument", "parse_arguments"),
    "holdfast.spec.loading.load": ("load_eval", "parse_eval", "typed_eval"),
    "holdfast.spec.resolved_eval": ("resolve",),
    "holdfast.spec.schema.agent": ("AgentLimits", "AgentSpec"),
    "holdfast.spec.schema.dataset": ("DatasetSpec", "Filter", "Operation", "Repeat", "Shuffle", "Slice"),
    "holdfast.spec.schema.drift": ("Block", "Drift"),
    "holdfast.spec.schema.eval": ("EvalSpec",),
    "holdfast.spec.schema.introspect": ("Field", "FieldPlace", "schema_fields", "schema_places"),
    "holdfast.spec.schema.model": ("Generation", "ModelSpec", "Price", "RateLimit", "Timeouts"),
    "holdfast.spec.schema.runner": ("RunnerSpec", "StageLimits", "TaskRunner"),
    "holdfast.spec.schema.sampling": ("SamplingSpec",),
    "holdfast.spec.schema.task": ("Shot", "TaskSpec", "TrialLimits"),
    "holdfast.spec.schema.workspace": ("WorkspaceSpec",),
}
__getattr__ = load_lazily(__name__, _HOMES)
