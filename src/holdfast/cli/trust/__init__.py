"""The commands that check a run, and mend or delete what is derived."""
