"""The Python interface: `evaluate` runs tasks, `Run` reads what was recorded. Users import both from `holdfast`."""
