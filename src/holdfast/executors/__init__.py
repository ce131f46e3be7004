"""Who carries out the trials of a run."""
