"""Logs of Inspect: read, recovered after a crash, written from a run, and imported as one."""
