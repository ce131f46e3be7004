"""The index of a journal: a SQLite cache that says which records a run holds and where."""
