"""A run in an object store: its spool, upload, download, recovery and listing."""
