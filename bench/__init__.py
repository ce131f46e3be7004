"""What holdfast costs, beside what the bare work would cost: ratios, measured in one run.

`python -m bench` prints every figure; `python -m bench NAME` one benchmark. A benchmark is never a test: nothing here
fails when a target is missed, it says "over".
"""
