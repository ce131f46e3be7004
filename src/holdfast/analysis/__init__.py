"""What was measured: reports over the journal of a run."""
