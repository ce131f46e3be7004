"""The commands that show what a run holds; they change nothing."""
