"""The commands that start and resume runs."""
