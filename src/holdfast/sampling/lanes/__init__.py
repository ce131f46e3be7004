"""Carrying a sampling out: lanes at once, the candidates of each, who is told of them, and what it comes to."""
