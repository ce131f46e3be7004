"""Results of other tools as runs: one form that every reader yields, and one writer that makes a run of it."""
