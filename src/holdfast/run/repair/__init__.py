"""Rebuilding derived files, and recording results that only result files still have."""
