"""Axis values that depend on others: their trials start once the best of the others is chosen and recorded."""
