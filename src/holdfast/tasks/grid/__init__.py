"""The axes of a task: what is special about each value, and which combinations are run."""
