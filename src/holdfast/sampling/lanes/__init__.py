"""Running a sampling: its lanes, the candidates of each lane, hooks and observers, and the result."""
