"""Leases."""
