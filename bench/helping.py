"""help: what a person waits for who only asks how: the CPU of `holdfast --help` and of `import holdfast`."""

from __future__ import annotations

import sys

from bench.measure import Figure, Setting, Target, cpu_of_child, median_of

_TARGET = Target("value", "at most", 0.15)


def measure(setting: Setting) -> list[Figure]:  # noqa: ARG001 - every benchmark takes it
    program = "from holdfast.cli import main; main(['--help'])"
    asked, imported, bare = median_of(
        lambda: cpu_of_child([sys.executable, "-c", program]),
        lambda: cpu_of_child([sys.executable, "-c", "import holdfast"]),
        lambda: cpu_of_child([sys.executable, "-c", "pass"]),
    )
    return [
        Figure("help", "holdfast --help, CPU (floor: python -c pass)", asked, "s", bare, _TARGET),
        Figure("help", "import holdfast, CPU (floor: the same)", imported, "s", bare, _TARGET),
    ]
