"""Values, spelled out: what they hold as bytes that are compared, without any code of theirs being run."""
