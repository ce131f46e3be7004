"""What a reader of scores has to know about them, each found in the journal."""
