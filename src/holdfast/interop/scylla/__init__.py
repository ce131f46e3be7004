"""Experiments of ProjectScylla: a tree of results, and a checkpoint that may know nothing of them."""
