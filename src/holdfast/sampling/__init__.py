"""Sampling: one request, several candidates, in depth and in breadth, until one meets its requirements."""
