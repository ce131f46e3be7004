"""Expressions that select trials: `status=failed and not (task=math or cost>0.5)`.

`parse_where` checks everything that can be known without a trial, so that a mistyped name never looks like a run
without such trials. What it returns is made of closures, fast enough to be asked about every trial of a large run.

    expression  = conjunction { "or" conjunction }
    conjunction = operand { "and" operand }
    operand     = { "not" } ( comparison | "(" expression ")" )
    comparison  = field operator value
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.errors import UsageError
from holdfast.run.where.clause import STATES, Clause, Names, Selectable, all_of, any_of, negation
from holdfast.run.where.fields import Compared, FieldCompiler
from holdfast.run.where.tokens import OPERATORS, Token, TokenKind, WhereText, in_quotes

__all__ = ["STATES", "Names", "Selectable", "Where", "parse_where"]

_MOST_LEVELS = 100
_NAMES = (TokenKind.WORD, TokenKind.QUOTED)


@dataclass(frozen=True, slots=True)
class Where:
    """A valid expression. A missing value matches no comparison, not even `!=`; `not (…)` includes it."""

    text: str
    _clause: Clause = field(repr=False)
    unknown_values: tuple[str, ...] = field(default=(), repr=False)
    """Sentences about values in it that no trial of the run has, for whoever finds that nothing matches."""

    def matches(self, candidate: Selectable) -> bool:
        """Whether the trial is selected; it is asked only for what decides that, from left to right."""
        return self._clause.test(candidate)

    @property
    def fields(self) -> frozenset[str]:
        """What a trial can be asked for: names of built-in fields, and "axes", "scores", "metadata"."""
        return self._clause.fields

    def states(self) -> frozenset[str]:
        """A set of status values outside of which no trial matches; all of STATES where status is not restricted."""
        return self._clause.true_in


def parse_where(text: str, names: Names, option: str = "--where") -> Where:
    """Reads an expression about the trials of a run with these axes and scorers.

    Raises:
        UsageError: it is not valid; the message begins with the option and points at the column.
    """
    if not text.strip():
        raise UsageError(f"{option}: the expression is empty. Write for example: status=failed")
    parser = _Parser(WhereText(text, option), names)
    return Where(text, parser.parse(), tuple(parser.unknown_values))


class _Parser:
    """Reads the tokens of one expression from left to right, each of them once."""

    def __init__(self, text: WhereText, names: Names) -> None:
        self._text = text
        self._fields = FieldCompiler(text, names)
        self._tokens = iter(text.tokens())
        self._next = next(self._tokens)

    @property
    def unknown_values(self) -> list[str]:
        return self._fields.unknown_values

    def parse(self) -> Clause:
        clause = self._expression(0)
        if self._next.kind is not TokenKind.END:
            raise self._unexpected()
        return clause

    def _take(self) -> Token:
        taken, self._next = self._next, next(self._tokens, self._next)
        return taken

    def _is_keyword(self, word: str) -> bool:
        return self._next.kind is TokenKind.KEYWORD and self._next.text == word

    def _expression(self, level: int) -> Clause:
        clauses = [self._conjunction(level)]
        while self._is_keyword("or"):
            self._take()
            clauses.append(self._conjunction(level))
        return any_of(clauses)

    def _conjunction(self, level: int) -> Clause:
        clauses = [self._operand(level)]
        while self._is_keyword("and"):
            self._take()
            clauses.append(self._operand(level))
        return all_of(clauses)

    def _operand(self, level: int) -> Clause:
        is_negated = False
        while self._is_keyword("not"):
            is_negated, level = not is_negated, self._take_level(level)
        clause = self._group(level) if self._next.kind is TokenKind.OPEN else self._comparison()
        return negation(clause) if is_negated else clause

    def _group(self, level: int) -> Clause:
        opening = self._next
        clause = self._expression(self._take_level(level))
        if self._next.kind is TokenKind.END:
            raise self._text.error(opening.position, 'unclosed "("', 'add ")"')
        if self._next.kind is not TokenKind.CLOSE:
            raise self._unexpected()
        self._take()
        return clause

    def _take_level(self, level: int) -> int:
        """Takes a token that opens a level; the number of that level."""
        # The parser and the tests of groups are recursive: a bound keeps both within Python's stack.
        if level == _MOST_LEVELS:
            what = f"parentheses and not are nested more than {_MOST_LEVELS} levels deep"
            raise self._text.error(self._next.position, what)
        self._take()
        return level + 1

    def _comparison(self) -> Clause:
        if self._next.kind not in _NAMES:
            raise self._no_field()
        field = self._take()
        if self._next.kind is not TokenKind.OPERATOR:
            raise self._no_operator(field)
        operator = self._take()
        if self._next.kind not in _NAMES:
            raise self._no_value(operator)
        return self._fields.compile(Compared(field, operator, self._take()))

    # Errors, each at the next token.

    def _no_field(self) -> UsageError:
        missing = "a field" if self._next.kind is TokenKind.OPERATOR else "a comparison"
        way_out = "quote a keyword that is meant as a name" if self._next.kind is TokenKind.KEYWORD else ""
        return self._text.error(self._next.position, f"{missing} is missing", way_out)

    def _no_operator(self, field: Token) -> UsageError:
        what = f"an operator is missing after {in_quotes(field.text)}"
        return self._text.error(self._next.position, what, f"use one of {', '.join(OPERATORS)}")

    def _no_value(self, operator: Token) -> UsageError:
        if self._next.kind is TokenKind.OPERATOR:
            way_out = f"use one of {', '.join(OPERATORS)}"
            return self._text.error(self._next.position, "two operators in a row", way_out)
        way_out = "quote a keyword that is meant as a value" if self._next.kind is TokenKind.KEYWORD else ""
        return self._text.error(self._next.position, f'a value is missing after "{operator.text}"', way_out)

    def _unexpected(self) -> UsageError:
        """What follows a complete comparison is neither its end nor another one."""
        token = self._next
        if token.kind is TokenKind.CLOSE:
            return self._text.error(token.position, 'unexpected ")"', 'there is no "(" for it')
        if token.kind is TokenKind.OPERATOR:
            return self._text.error(token.position, f'unexpected "{token.text}"', "a comparison has one operator")
        way_out = 'join comparisons with "and" or "or", and quote a value that has spaces'
        return self._text.error(token.position, f"unexpected {in_quotes(token.text)}", way_out)
