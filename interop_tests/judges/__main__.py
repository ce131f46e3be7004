"""Compares our grades with those of Inspect's `model_graded_qa` on the same replies, and fails where they differ.

Both use Inspect's default pattern and its values: C is 1, P is 0.5, I is 0. Differences that are meant are listed with
their reason; one that no longer exists fails too.
"""

import itertools
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from inspect_judged import inspect_grades  # noqa: E402 - it lies beside this file
from our_judged import our_grades  # noqa: E402

REPLIES = [
    "It matches the reference.\n\nGRADE: C",
    "It does not.\n\nGRADE: I",
    "In part.\n\nGRADE: P",
    "GRADE: I at first, but no.\nGRADE: C",
    "GRADE:C",
    "GRADE : C",
    "**GRADE: C**",
    "GRADE: C.",
    "GRADE: I (missing the unit)",
    "grade: C",
    "downgrade: C",
    "The grade is C",
    "C",
    '{"grade": "C"}',
    "GRADE: X",
    "GRADE:",
    "GRADE:\nC",
    "GRADE: Correct",
    "GRADE: Incorrect",
    "I would not give GRADE: C here.\nGRADE: I\nThank you.",
    "GRADE: c",
    "GRADE: i",
    " " * 10,
    "\u00dcber: GRADE: C \u2713",
]
DIFFERENT = {
    "GRADE: c": "a grade is one of those that were given, letter by letter; Inspect takes the small letter as it is",
    "GRADE: i": "as above",
}
"""By reply, why our grade is meant to be another than that of a pattern that is given to Inspect."""
PANELS = [list(replies) for replies in itertools.product(["GRADE: C", "GRADE: I", "nothing"], repeat=3)]


def main() -> int:
    wrong = 0
    with tempfile.TemporaryDirectory() as place:
        ours, theirs = our_grades(REPLIES, Path(place)), inspect_grades(REPLIES, Path(place))
        for reply, mine, other in zip(REPLIES, ours, theirs, strict=True):
            is_right = (mine != other) is (reply in DIFFERENT)
            wrong += not is_right
            note = f"  ({DIFFERENT[reply]})" if reply in DIFFERENT else ""
            print(f"{'' if is_right else 'WRONG '}{reply!r}: Inspect {other}, ours {mine}{note}")
        by_panel = zip(PANELS, our_grades(PANELS, Path(place)), inspect_grades(PANELS, Path(place)), strict=True)
        for replies, mine, other in by_panel:
            wrong += mine != other
            print(f"{'' if mine == other else 'WRONG '}{replies}: Inspect {other}, ours {mine}")
    print(f"{len(REPLIES)} replies and {len(PANELS)} panels, {len(DIFFERENT)} meant differences, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
