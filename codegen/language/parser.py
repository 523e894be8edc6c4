"""From the text of a program to its syntax tree."""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.ir import Location
from kilotune.codegen.language.syntax import Expression
from kilotune.codegen.language.tree import build

if TYPE_CHECKING:
    from lark import Lark
    from lark.exceptions import UnexpectedToken

LIBRARIES = ("lark",)
"""What reading a program imports."""

_EXPRESSION_STARTS = frozenset(
    [
        "NAME",
        "INTEGER",
        "DECIMAL",
        "LPAR",
        "LET",
        "LOOP",
        "SUM",
        "INIT",
        "RESHAPE",
        "REVERSE",
        "MAXPOOL",
        "CONV2D",
        "MBCONV",
    ]
)
_OPERATORS = frozenset(["SIGN", "PRODUCT", "TRANSPOSE", "COMPARE", "LEFT_BRACKET"])

_WORDS = {
    "NAME": "a name",
    "INTEGER": "an integer",
    "DECIMAL": "a number",
    "SIGN": "'+' or '-'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LEFT_BRACKET": "'['",
    "RSQB": "']'",
    "RBRACE": "'}'",
    "COMMA": "','",
    "COLON": "':'",
    "EQUAL": "'='",
    "QMARK": "'?'",
    "IN": "'in'",
    "_REACH": "':+'",
    "_KERNEL": "'{k'",
    "_STRIDE": "'{s'",
    "_PADDING": "'{p'",
    "_DILATION": "'{d'",
    "_GROUPS": "'{g'",
    "$END": "the end of the program",
}


def parse(text: str, path: str = "model.sd") -> Expression:
    """The syntax tree of a program.

    Raises InputError, with line, column and what could have stood there, where the text is not in the language.
    """
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    try:
        tree = _grammar().parse(text)
    except UnexpectedToken as error:
        raise _unexpected_token(error, path) from None
    except UnexpectedCharacters as error:
        found = repr(error.char)
        location = Location(path, error.line, error.column)
        raise InputError.at(location, "syntax", "names, numbers and operators of the language", found) from None
    return build(tree, path)


@functools.cache
def _grammar() -> Lark:
    """The parser. Lark is imported on first use: `--help` need not wait for it."""
    from lark import Lark

    text = resources.files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", lexer="basic", maybe_placeholders=True)


def _unexpected_token(error: UnexpectedToken, path: str) -> InputError:
    token = error.token
    acceptable = frozenset(error.accepts or error.expected)
    if token.type == "$END":
        # The end has no place of its own: name the place after the last token, or the start of an empty file.
        location = Location(path, token.end_line or 1, token.end_column or 1)
        return InputError.at(location, "syntax", _describe(acceptable), "the end of the file")
    return InputError.at(Location(path, token.line, token.column), "syntax", _describe(acceptable), repr(str(token)))


def _describe(terminals: frozenset[str]) -> str:
    """Readable words for what the grammar accepts: "an operator, ')' or 'in'"."""
    words: list[str] = []
    rest = set(terminals)
    if {"NAME", "LET"} <= terminals:
        words.append("an expression")
        rest -= _EXPRESSION_STARTS | {"SIGN"}
    if "PRODUCT" in terminals:
        words.append("an operator")
        rest -= _OPERATORS | {"PRODUCT"}
        if "NAME" not in terminals:
            rest.discard("LPAR")  # a call: only after a name, and rarely what was meant
    words += sorted(_WORDS.get(terminal, terminal.lower()) for terminal in rest)
    if len(words) == 1:
        return words[0]
    return ", ".join(words[:-1]) + " or " + words[-1]
