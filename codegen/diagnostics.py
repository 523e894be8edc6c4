"""Errors in what a user wrote: one sentence that names the file, the place in it, what was expected and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from json import JSONDecodeError

    from kilotune.codegen.ir import Location

MOST_FOUND, MOST_NAMED, MOST_LETTERS = 200, 120, 640
"""Letters of what was found, of the names of what it was found in, of a whole message: all may quote the file, whatever is in
it."""


MOST_LETTERS_BESIDES = 2000
"""Letters of what is wrong with a file besides the first thing."""


def sentence(message: str, most: int = MOST_LETTERS) -> str:
    """A message as one line of bounded length, with everything that is no letter as its escape sequence: what a file holds can
    neither end the line nor command the terminal."""
    line = _short(message, most)
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def _short(text: str, most: int) -> str:
    """The text, or its beginning and its end."""
    return text if len(text) <= most else f"{text[: most - 40]} ... {text[-30:]}"


class InputError(ValueError):
    """A program, parameter or data file that cannot be used.

    The message is `path:line:column: subject: expected X, found Y`; files without lines have a `place`
    ("row 3", "element (0, 2)") instead of line and column. `besides`: what else is wrong, in a few words each, behind it.
    """

    def __init__(
        self,
        path: str,
        *,
        expected: str,
        found: str,
        subject: str = "",
        line: int | None = None,
        column: int | None = None,
        place: str | None = None,
        besides: Sequence[str] = (),
    ) -> None:
        self.besides = tuple(besides)
        self.path = path
        self.line = line
        self.column = column
        self.place = place
        self.subject = subject
        self.expected = expected
        self.found = found
        super().__init__(self._sentence())

    @classmethod
    def at(cls, location: Location, subject: str, expected: str, found: str) -> InputError:
        """An error at a place of a program's source."""
        if location.place is not None:
            return cls(location.path, expected=expected, found=found, subject=subject, place=location.place)
        path, line, column = location.path, location.line, location.column
        return cls(path, expected=expected, found=found, subject=subject, line=line, column=column)

    @classmethod
    def of_json(cls, path: str, error: JSONDecodeError) -> InputError:
        """An error in a text that is no JSON: found is the line that Python stopped at, or the end of the file."""
        line = error.doc.split("\n")[error.lineno - 1].strip()
        found = repr(line[:40]) if line else "the end of the file"
        return cls(path, line=error.lineno, column=error.colno, expected="JSON", found=found)

    def _sentence(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}:{self.column}"
        place, subject = _short(self.place or "", MOST_NAMED), _short(self.subject, MOST_NAMED)
        parts = [where, place, subject, f"expected {self.expected}, found {_short(self.found, MOST_FOUND)}"]
        first = sentence(": ".join(part for part in parts if part))
        others = "; ".join(_short(one, MOST_FOUND) for one in self.besides)
        return f"{first}; besides: {sentence(others, MOST_LETTERS_BESIDES)}" if others else first

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders, and exceptions with keyword arguments do not survive pickling by default.
        return _restore, (dict(self.__dict__),)


def _restore(fields: dict[str, Any]) -> InputError:
    return InputError(**fields)
