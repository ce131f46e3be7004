"""Workspaces: directories in which agents work, each trial in one of its own, and what is taken from them after."""
