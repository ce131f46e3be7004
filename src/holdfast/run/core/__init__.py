"""Where the parts of a run are, what its records hold, how they are encoded, and how they are read."""
