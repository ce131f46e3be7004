"""ZIP archives: read without trust, written at once."""
