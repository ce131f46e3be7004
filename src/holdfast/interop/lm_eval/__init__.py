"""Samples that lm-evaluation-harness has logged."""
