"""What the records of a run come to: its attempts, what remains, and where its parts disagree."""
