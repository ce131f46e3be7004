"""Judging answers: built-in scorers by name, and functions as scorers."""
