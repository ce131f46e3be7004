"""The commands that bring a run, or its records, to another place."""
