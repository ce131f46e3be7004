"""`holdfast schema`: the JSON Schema of an eval file, for editors and for programs that write eval files."""

from __future__ import annotations

import click

from holdfast.reference.eval_schema import schema_text


@click.command("schema")
@click.option("--json", "as_json", is_flag=True, help="No effect: the schema is JSON.")
def command(*, as_json: bool) -> int:
    """Print the JSON Schema (draft 2020-12) of an eval file.

    An editor with a YAML language server uses it to check and complete an eval file whose first line is
    `# yaml-language-server: $schema=eval.schema.json`. `holdfast init` writes such a file.
    """
    del as_json
    click.echo(schema_text(), nl=False)
    return 0
