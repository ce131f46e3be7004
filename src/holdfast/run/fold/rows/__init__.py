"""The rows of the fold: what is kept of a trial and of a score slot, and how records are merged into them."""
