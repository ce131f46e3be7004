"""Reading a log of Inspect's as an eval that can be imported."""
