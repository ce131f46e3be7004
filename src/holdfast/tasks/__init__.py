"""Tasks: samples, datasets, templates, solvers and scorers."""

from holdfast.tasks.answer import Answer, as_answer
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.datasets.ingest import Ingested, ingest, ingest_samples
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.from_spec import adapt_task, build_task, declared_samples
from holdfast.tasks.prompt import as_messages
from holdfast.tasks.sample import Sample
from holdfast.tasks.score import Score, as_score
from holdfast.tasks.scorers import Scorer, build_scorer, choice, exact, includes, numeric, regex, scorer
from holdfast.tasks.solver import generate
from holdfast.tasks.source.digest import source_digest, source_files
from holdfast.tasks.task import Task, TaskFactory, task
from holdfast.tasks.task_reference import load_use
from holdfast.tasks.trial_interface import ScoreScope, Solver, Trial

__all__ = [
    "Answer",
    "Dataset",
    "Ingested",
    "Rows",
    "Sample",
    "Score",
    "ScoreScope",
    "Scorer",
    "Solver",
    "Task",
    "TaskFactory",
    "Trial",
    "adapt_task",
    "as_answer",
    "as_messages",
    "as_score",
    "build_scorer",
    "build_task",
    "choice",
    "declared_samples",
    "exact",
    "generate",
    "includes",
    "ingest",
    "ingest_samples",
    "load_use",
    "numeric",
    "regex",
    "scorer",
    "source_digest",
    "source_files",
    "task",
]
