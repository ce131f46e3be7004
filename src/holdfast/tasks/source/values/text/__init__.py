"""The text of code as it counts in a comparison, and the names in it."""
