"""What a candidate must meet, and the outcome of checking it."""
