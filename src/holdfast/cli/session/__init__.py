"""What `run`, `resume`, `fork` and `diff` share: the offered eval, a session in the foreground, and its messages."""
