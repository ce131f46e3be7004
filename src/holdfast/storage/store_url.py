"""The URLs of object stores, as a user writes them: `s3://bucket/run`."""

SCHEMES = ("s3", "gs", "az", "abfs", "azure")


def is_url(text: str) -> bool:
    """Whether a text names a place in an object store."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and scheme in SCHEMES
