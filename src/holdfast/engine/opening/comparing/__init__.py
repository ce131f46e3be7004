"""Comparing a run with what is offered: its members, its defaults, how much it grows, and the ways out of a refusal."""
