"""Leases: the right of one session at a time to execute a run, in a directory and in an object store."""
