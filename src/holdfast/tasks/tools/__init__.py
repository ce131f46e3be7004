"""Tools: Python functions that a model may call, and the solver that lets it."""
