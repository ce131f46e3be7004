"""Axes in the records of a run: the choices that were made for values which depend on others."""
