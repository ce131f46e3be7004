"""Trials as people read them: the list, one trial in full, and its transcript."""
