"""How many tokens a call will take: an estimate from the length of its text and from what replies took so far."""

from __future__ import annotations

from holdfast.models.message import Request, Usage

_FIRST_GUESS = 500.0
# A provider wraps the text in a few tokens; counted as characters, so that short texts do not distort the ratio.
_AROUND = 200
_MARGIN = 1.25
_FADING = 0.99


class TokenEstimate:
    """Learns from the replies of one model."""

    def __init__(self) -> None:
        self._per_character, self._output = 0.25, 0.0

    def tokens_of(self, request: Request) -> float:
        """What a request and its reply will take."""
        max_tokens = request.generation.max_tokens
        expected = self._output * _MARGIN or max_tokens or _FIRST_GUESS
        return _characters(request) * self._per_character + min(expected, max_tokens or expected)

    def learn(self, request: Request, usage: Usage) -> None:
        """Learns the actual usage of a request and its reply."""
        self._output = max(self._output * _FADING, usage.output_tokens)
        self._per_character = max(self._per_character * _FADING, usage.input_tokens / _characters(request))


def _characters(request: Request) -> int:
    return _AROUND + sum([message.characters for message in request.messages])
