"""The two import lines that a user changes: everything else in this suite is the same for both sides."""

import os

if os.environ.get("SAMPLING_SIDE") == "holdfast":
    from holdfast.interop import mellea as sampling
else:
    from mellea.stdlib import sampling

__all__ = ["sampling"]
