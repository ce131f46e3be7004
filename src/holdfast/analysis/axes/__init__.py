"""The report per axis: what the trials with each value came to, and what they took."""
