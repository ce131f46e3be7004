"""`--until` and `--from`: options that name a stage of trials."""

from __future__ import annotations

import click

from holdfast.run.core.records import STAGES

_STAGE = click.Choice(STAGES)
until_option = click.option(
    "--until",
    type=_STAGE,
    show_choices=False,
    metavar="STAGE",
    help=f"Stop every trial after this stage: {', '.join(STAGES)}. A resume without it continues from there.",
)
from_option = click.option(
    "--from",
    "start_from",
    type=_STAGE,
    show_choices=False,
    metavar="STAGE",
    help="Run trials again from this stage on, and keep what came before; --where selects them, finished ones too.",
)
