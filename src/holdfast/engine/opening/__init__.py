"""Opening a session: starting a new run, resuming, forking or rebuilding one, on this machine or in a store."""
