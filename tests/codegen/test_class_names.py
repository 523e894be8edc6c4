"""Names of classes reach C as they are, whatever characters they have."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kilotune.codegen.class_names import ClassName, defined_names, told_names
from tests.codegen.emit.compiled import needs_compiler


def test_names_are_told_where_they_are_other_than_the_numbers_of_all_classes() -> None:
    assert told_names((0, 1, 2), 3) == ()
    assert told_names((1, 2, 3), 3) == (1, 2, 3)
    assert told_names((1, 2, 3), 4) == told_names((), None) == ()
    assert told_names(("a", "b"), 2) == ("a", "b")


@needs_compiler
@pytest.mark.parametrize(
    "names", [("plain", 'a "b" \\ c', "\u00e91", "??/\n7*/"), (-5, 3, 2**31), (7, 4)], ids=["texts", "long", "numbers"]
)
def test_the_macro_holds_the_names(names: tuple[ClassName, ...], tmp_path: Path) -> None:
    comment, macro = defined_names(names)
    declaration = comment.removeprefix("/* What the classes are called: ").removesuffix(" */")
    shown = "%s" if isinstance(names[0], str) else "%lld"
    value = "names[i]" if isinstance(names[0], str) else "(long long)names[i]"
    (tmp_path / "names.c").write_text(
        f"#include <stdio.h>\n#define MODEL_CLASSES {len(names)}\n{macro}\n{declaration}\n"
        f'int main(void) {{ for (int i = 0; i < MODEL_CLASSES; i++) {{ printf("{shown}", {value}); putchar(0); }} return 0; }}\n'
    )
    subprocess.run(["cc", "-std=c99", "-Wall", "-Werror", "names.c", "-o", "names"], cwd=tmp_path, check=True)
    out = subprocess.run([str(tmp_path / "names")], check=True, capture_output=True).stdout.decode()
    assert out.split("\0")[:-1] == [str(name) for name in names]
