"""The progress of a session as people and dashboards see it: a table, plain lines, a JSON file."""
