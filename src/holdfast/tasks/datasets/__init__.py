"""Rows of a dataset file: read, copied in a canonical form, identified by content, chosen, and made into samples."""
