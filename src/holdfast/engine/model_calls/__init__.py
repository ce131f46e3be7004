"""Calling models: the open models of an eval, their rate limits, retries, and the check which model replies."""
