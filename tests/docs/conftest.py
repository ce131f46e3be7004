"""Tests of the documentation: a real S3 server for the commands that use one."""

from store_fixtures import store

__all__ = ["store"]
