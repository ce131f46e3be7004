"""The expressions that select trials, as in `--where` and `--redo`."""
