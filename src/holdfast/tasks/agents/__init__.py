"""Agents: commands that work on a task in a workspace, their limits, their outputs and how they end."""
