"""In which role a model is asked: to be measured, or to judge what another has answered."""

from __future__ import annotations

import enum


class ModelRole(enum.StrEnum):
    """The role of a model in a call; the first is the usual one, and is not recorded."""

    UNDER_TEST = "under test"
    JUDGE = "judge"
