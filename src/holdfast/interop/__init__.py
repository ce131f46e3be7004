"""Other libraries' interfaces on this project's engine; nothing here is imported unless it is asked for."""
