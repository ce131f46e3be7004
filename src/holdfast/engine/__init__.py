"""Executing trials: plan, limits, durable steps, retries, signals and progress."""
