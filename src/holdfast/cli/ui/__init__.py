"""What every command needs of a terminal: streams, safe text, JSON, progress, and signals before a session runs."""
