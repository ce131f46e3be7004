"""From an eval file or a command line to a typed eval; every problem is named by its place."""
