"""Whether a run may be resumed with an eval, dataset or code that has changed."""
