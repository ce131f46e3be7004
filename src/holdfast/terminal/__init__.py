"""The terminal: foreign text made harmless, and streams whose reader has gone."""
