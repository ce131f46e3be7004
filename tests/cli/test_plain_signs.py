"""Messages on a terminal that knows few characters."""

from __future__ import annotations

import io

from holdfast.terminal.plain_signs import use_plain_signs


def test_signs_of_ours_are_written_in_ascii():
    """Whatever else is not known is an escape; a stream that knows the signs keeps them."""
    for encoding, shown in (
        ("ascii", "8/8 trials - took 0s... a -> b x2 \\xe9\n"),
        ("utf-8", "8/8 trials · took 0s… a → b \N{MULTIPLICATION SIGN}2 é\n"),
    ):
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding=encoding)
        use_plain_signs(stream)
        stream.write("8/8 trials · took 0s… a → b \N{MULTIPLICATION SIGN}2 é\n")
        stream.flush()
        assert raw.getvalue().decode(encoding) == shown
    use_plain_signs(io.StringIO())
