"""What the classes of a classifier are called, where that is not their number."""

from __future__ import annotations

ClassName = int | str


def told_names(classes: tuple[ClassName, ...], count: int | None) -> tuple[ClassName, ...]:
    """The names of `count` classes, in the order of their numbers; none where the names are the numbers from 0, and where they are not
    those of all the classes."""
    return classes if len(classes) == count and classes != tuple(range(len(classes))) else ()


def defined_names(names: tuple[ClassName, ...]) -> list[str]:
    """Lines of a C header: a macro that initialises an array of the names by class, so that one who does not ask for it pays nothing."""
    if not names:
        return []
    texts = any(isinstance(name, str) for name in names)
    kind = "const char *const" if texts else "const long long" if max(map(_bits, names)) > 31 else "const long"
    return [
        f"/* What the classes are called: static {kind} names[MODEL_CLASSES] = MODEL_CLASS_NAMES; */",
        f"#define MODEL_CLASS_NAMES {{{', '.join(_quoted(str(name)) if texts else str(name) for name in names)}}}",
    ]


def _bits(name: ClassName) -> int:
    return int(name).bit_length()


def _quoted(text: str) -> str:
    """A C string of the text in UTF-8; what is not plain is written in octal digits, which end after three."""
    plain = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode())
    return f'"{plain}"'
