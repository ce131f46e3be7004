"""Deciding when a trial may start and a call may be sent: concurrency limits, capacity, admission, and the clock."""
