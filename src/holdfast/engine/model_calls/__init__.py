"""Calling models: the open models of an eval, their rate limits, retries, and which model it is that replies."""
