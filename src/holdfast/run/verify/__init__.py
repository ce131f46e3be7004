"""Checking that everything in a run is there, unchanged and consistent."""
