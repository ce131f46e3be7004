"""Clean."""
