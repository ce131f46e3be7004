"""Tasks: samples, datasets, templates, solvers and scorers."""
