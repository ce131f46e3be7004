"""Keys that are written into Python files: such a file is never copied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.models.redaction import redact_error
from holdfast.spec.loading.key_detection import looks_like_key


def holds_key(path: Path) -> bool:
    """Whether a Python file holds a key that this process knows, or something in the form of one."""
    text = path.read_bytes().decode("utf-8", "replace")
    if redact_error(text) != text:
        return True
    # Names such as hf_hub_download have the form of a key too, so only what is quoted or commented counts.
    return looks_like_key(text) and any(map(looks_like_key, _written_texts(text)))


def _written_texts(source: str) -> Iterator[str]:
    """The string literals and comments of Python source; all of it, if it is not valid Python."""
    # Few files hold anything in the form of a key.
    import io  # noqa: PLC0415
    import tokenize  # noqa: PLC0415

    code = {tokenize.NAME, tokenize.NUMBER, tokenize.OP}
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in code:
                yield token.string
    except (tokenize.TokenError, SyntaxError):
        yield source
