"""A person's own code: imported from a file, and compared by what it says rather than by where it lies."""
