"""The rows of the fold: one for a trial, one for a score slot, and how records are merged into them."""
