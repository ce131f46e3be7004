"""Recovering a crashed log: its buffers, its samples, and the log that is made of them."""
