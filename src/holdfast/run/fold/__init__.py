"""The state of a run, computed from its records: how attempts ended, what remains, where its parts disagree."""
