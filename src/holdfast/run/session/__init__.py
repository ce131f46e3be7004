"""Creating a run, opening it for a session, and writing what the session records."""
