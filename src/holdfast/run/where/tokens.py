"""The text of an expression that selects trials: its tokens, and errors that point at a column of it."""

import enum
import re
import unicodedata
from typing import NamedTuple

from holdfast.errors import UsageError

MOST_CHARACTERS = 10_000
OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "~")
_KEYWORDS = ("and", "or", "not")
_TYPOGRAPHIC_QUOTES = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a"
_TOKEN = re.compile(
    r"""(?P<space>\s+) | (?P<open>\() | (?P<close>\)) | (?P<operator>==|!=|<=|>=|[=<>~])
    | (?P<quoted>'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*") | (?P<word>(?:[A-Za-z0-9_\-./:\#@%+*]|[^\x00-\x7f\s])+)""",
    re.VERBOSE | re.DOTALL,
)
_INSTEAD = {"&": 'write "and"', "|": 'write "or"', "!": 'write "!=" or "not"'}
_INSTEAD |= dict.fromkeys(_TYPOGRAPHIC_QUOTES, "use straight quotes, ' or \"")
_QUOTED_CHARACTERS = 60
_SHOWN_CHARACTERS = 120
_SHOWN_BEFORE = 80
"""Of a long expression, so many characters before the column are repeated in an error."""


class TokenKind(enum.Enum):
    """What a part of an expression is."""

    WORD = "word"
    QUOTED = "quoted"
    KEYWORD = "keyword"
    OPERATOR = "operator"
    OPEN = "open"
    CLOSE = "close"
    END = "end"


class Token(NamedTuple):
    """A part of an expression; the text of a quoted one is without its quotes, that of a keyword in lower case."""

    kind: TokenKind
    text: str
    position: int


class WhereText(NamedTuple):
    """An expression, and the option that it was given with."""

    text: str
    option: str

    def tokens(self) -> list[Token]:
        """The parts of the expression; the last one has the kind END.

        Raises:
            UsageError: a quote is not closed, a character has no meaning, or the text is too long.
        """
        if len(self.text) > MOST_CHARACTERS:
            raise self.error(MOST_CHARACTERS, f"the expression exceeds {MOST_CHARACTERS:,} characters")
        found, position = [], 0
        while match := _TOKEN.match(self.text, position):
            position = match.end()
            if match.lastgroup != "space":
                found.append(self._token(match))
        if position < len(self.text):
            raise self._unreadable(position)
        return [*found, Token(TokenKind.END, "", len(self.text.rstrip()))]

    def _token(self, match: re.Match[str]) -> Token:
        kind, text, position = TokenKind(match.lastgroup), match[0], match.start()
        if kind is TokenKind.QUOTED:
            return Token(kind, re.sub(rf"\\([\\{text[0]}])", r"\1", text[1:-1]), position)
        for place, character in enumerate(text):
            if not character.isprintable() or character in _TYPOGRAPHIC_QUOTES:
                raise self._unreadable(position + place)
        if text.lower() in _KEYWORDS:
            return Token(TokenKind.KEYWORD, text.lower(), position)
        return Token(kind, text, position)

    def _unreadable(self, position: int) -> UsageError:
        character = self.text[position]
        if character in "'\"":
            return self.error(position, "unclosed quote", f"end the text with {character}")
        name = in_quotes(character) if character.isprintable() else f"U+{ord(character):04X}"
        return self.error(
            position, f"unexpected character {name}", _INSTEAD.get(character, "put text that contains it in quotes")
        )

    def error(self, position: int, what: str, way_out: str = "", note: str = "") -> UsageError:
        """An error at a position: what is wrong and its column, then the expression, a caret, and perhaps a note."""
        sentence = f"{self.option}: {what} at column {position + 1}{way_out and f'; {way_out}'}"
        shown, before = _excerpt(self.text, position)
        lines = [sentence if sentence.endswith("?") else f"{sentence}.", shown, f"{' ' * _columns(before)}^"]
        return UsageError("\n".join([*lines, note] if note else lines))


def in_quotes(text: str) -> str:
    """Text as written in a message: printable, shortened, in double quotes."""
    short = text if len(text) <= _QUOTED_CHARACTERS else f"{text[: _QUOTED_CHARACTERS - 1]}…"
    return f'"{_in_one_line(short)}"'


def _excerpt(text: str, position: int) -> tuple[str, str]:
    """The expression, or as much of a long one as helps; and that part of it which is before the position."""
    start = max(position - _SHOWN_BEFORE, 0) if len(text) > _SHOWN_CHARACTERS else 0
    end = start + _SHOWN_CHARACTERS
    before = ("…" if start else "") + _in_one_line(text[start:position])
    return before + _in_one_line(text[position:end]) + ("…" if end < len(text) else ""), before


def _in_one_line(text: str) -> str:
    """The text with one printable character for each of its characters."""
    return "".join(one if one.isprintable() else " " if one.isspace() else "?" for one in text)


def _columns(text: str) -> int:
    """How wide a terminal shows the text: wide characters take two columns, combining ones none."""
    return sum(0 if unicodedata.category(one) in {"Mn", "Me"} else _width(one) for one in text)


def _width(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1
