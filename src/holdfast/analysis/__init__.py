"""Scores and coverage: reports over the journal of a run."""
