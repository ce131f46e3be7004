"""Deleting what a run does not need any more."""
