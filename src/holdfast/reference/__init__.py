"""The reference of the eval file: its JSON Schema, and the fields in `docs/eval-file.md`, both made from the schema."""
