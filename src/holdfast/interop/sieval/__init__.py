"""Configurations of SiEval."""
