"""The parts of `evaluate`: its arguments as a request for a run, and how it shows progress."""
