"""Every field of an eval file, typed and bounded, with the class that says what a change to it means on resume."""
