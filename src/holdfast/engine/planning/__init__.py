"""From an eval to a plan: its tasks, its inputs, the key of every trial, and what all of it may cost."""
