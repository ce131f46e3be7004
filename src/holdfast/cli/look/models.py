"""`holdfast models`: which providers are ready here, and what the others need."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.standard_streams import say
from holdfast.models import list_providers
from holdfast.models.env_file import read_env_file


@click.command("models")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(*, as_json: bool) -> int:
    """Say which model providers are ready on this machine, and what each of the others needs."""
    for warning in read_env_file(Path()):
        say(f"warning: {warning}")
    providers = list_providers()
    if as_json:
        print_json({"providers": [provider._asdict() for provider in providers]})
        return 0
    for provider in providers:
        state = "ready" if provider.ready else f"needs {provider.needs}"
        click.echo(f"{provider.name:<12} {provider.description} — {state}")
    return 0
