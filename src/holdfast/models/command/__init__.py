"""Models that no one calls here: a command of the task does."""
