"""`holdfast models`: which providers are ready here, and what the others need."""

from __future__ import annotations

import click

from holdfast.cli.ui.json_output import print_json
from holdfast.models import catalogue


@click.command("models")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(*, as_json: bool) -> int:
    """Say which model providers are ready on this machine, and what each of the others needs."""
    offers = catalogue()
    if as_json:
        print_json({"providers": [offer._asdict() for offer in offers]})
        return 0
    for offer in offers:
        state = "ready" if offer.ready else f"needs {offer.needs}"
        click.echo(f"{offer.name:<12} {offer.description} — {state}")
    return 0
