"""Judges compared with people: how far they agree, and the score without the judge's errors."""
