"""The walk from an object to all code and values that it reaches."""
