"""When a trial may start and a call may go out: concurrency limits, slots, admission, and the clock."""
