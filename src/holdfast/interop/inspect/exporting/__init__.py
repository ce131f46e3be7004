"""Writing a run as logs of Inspect's."""
