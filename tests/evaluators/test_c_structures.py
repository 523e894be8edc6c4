"""Structures read from C are what the C compiler makes of them: sizes and offsets of every member."""

from __future__ import annotations

import ast
import ctypes
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from kilotune.evaluators.c_structures import structures

ROOT = Path(__file__).parents[2]
SHARED = {
    "evaluators/cm/timing_state.h": ("Problem", "Outcome"),
    "evaluators/scamp5/refutation_state.h": ("Form", "Pair", "Refutation"),
    "evaluators/fixed_point/first_fit.c": ("Temporaries", "Meeting"),
    "evaluators/fixed_point/kernel.c": ("Operand", "Step", "Table", "Program", "Batch", "Group"),
    "spaces/cm/annealing.c": ("State",),
    "spaces/cm/arrangement.c": ("StageGraph",),
    "spaces/cm/core_sharing.h": ("Rooms",),
    "spaces/cm/moved_streams.h": ("Network",),
    "spaces/memory/regluing.c": ("RegluingProblem",),
    "spaces/memory/separating.c": ("SeparationProblem",),
    "spaces/memory/skyline_beam.c": ("BeamProblem",),
    "spaces/memory/skyline.c": ("SkylineProblem",),
    "spaces/reverse_split/cell_annealing.c": ("CellProblem", "CellChoice"),
    "spaces/reverse_split/changing_constants.c": ("ChangingProblem", "ChangingChoice"),
    "spaces/reverse_split/exchanging_state.h": ("Exchange",),
    "spaces/reverse_split/pebbling.c": ("Pebbling",),
    "spaces/reverse_split/programs_state.h": ("Problem",),
    "spaces/reverse_split/signless_state.h": ("SignlessProblem",),
}
COMPILED_IN = {
    "evaluators/cm/timing_state.h": "evaluators/cm/timing.c",
    "evaluators/scamp5/refutation_state.h": "evaluators/scamp5/refutation.c",
    "spaces/cm/core_sharing.h": "spaces/cm/annealing.c",
    "spaces/cm/moved_streams.h": "spaces/cm/annealing.c",
    "spaces/reverse_split/programs_state.h": "spaces/reverse_split/programs.c",
    "spaces/reverse_split/signless_state.h": "spaces/reverse_split/signless.c",
}

EVERYTHING = """
#include <stdint.h>
/* typedef struct { int gone; } Hidden; */
typedef struct { int8_t small; double real; } Inner; // a comment
typedef struct {
    uint8_t flag; int16_t pair[3];
    const volatile int32_t *stop, *const *rows, plain; /* an int32_t; and pointers */
    Inner inner, both[2];
    int whole; float single; uint64_t last;
} Outer;
"""


def laid_out(source: Path, found: tuple[type[ctypes.Structure], ...], folder: Path) -> list[int]:
    """What the compiler says: of every structure its size, and offset and size of every member."""
    lines = []
    for structure in found:
        lines.append(f'printf("%zu ", sizeof({structure.__name__}));')
        for name in (str(field[0]) for field in structure._fields_):
            lines.append(f'printf("%zu ", offsetof({structure.__name__}, {name}));')
            lines.append(f'printf("%zu ", sizeof((({structure.__name__} *)0)->{name}));')
    program = folder / "sizes.c"
    text = f'#include "{source}"\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {{ {" ".join(lines)} }}\n'
    program.write_text(text)
    subprocess.run(["cc", "-std=gnu11", "-w", "-o", folder / "sizes", program, "-lm"], check=True)
    answer = subprocess.run([folder / "sizes"], capture_output=True, check=True, text=True)
    return [int(number) for number in answer.stdout.split()]


def as_python_has_them(found: tuple[type[ctypes.Structure], ...]) -> list[int]:
    numbers = []
    for structure in found:
        numbers.append(ctypes.sizeof(structure))
        for name in (str(field[0]) for field in structure._fields_):
            member = getattr(structure, name)
            numbers += [member.offset, member.size]
    return numbers


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("path", SHARED)
def test_every_member_is_where_the_compiler_puts_it(path: str, tmp_path: Path) -> None:
    found = structures(ROOT / path, *SHARED[path])
    assert as_python_has_them(found) == laid_out(ROOT / COMPILED_IN.get(path, path), found, tmp_path)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_all_kinds_of_members(tmp_path: Path) -> None:
    source = tmp_path / "everything.c"
    source.write_text(EVERYTHING)
    found = structures(source, "Outer", "Inner")
    assert [name for name, *_ in found[0]._fields_] == [
        *("flag", "pair", "stop", "rows", "plain", "inner", "both", "whole", "single", "last"),
    ]
    assert as_python_has_them(found) == laid_out(source, found, tmp_path)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("long long much;", "Bad: expected a number, an array or a pointer, found 'long long much'"),
        ("int32_t bits : 3;", "Bad: expected a number, an array or a pointer, found 'int32_t bits : 3'"),
        ("size_t count;", "expected a structure size_t, found Bad"),
    ],
)
def test_what_cannot_be_read_is_named(body: str, sentence: str, tmp_path: Path) -> None:
    source = tmp_path / "bad.c"
    source.write_text(f"typedef struct {{ {body} }} Bad;")
    with pytest.raises(ValueError, match=f"^bad.c: {sentence}$"):
        structures(source, "Bad")


def test_a_member_that_c_does_not_have_cannot_be_set() -> None:
    """It would be kept in Python, and C would read zeros."""
    (problem,) = structures(ROOT / "spaces/reverse_split/programs_state.h", "Problem")
    made = problem()
    made.target_shape = 8
    with pytest.raises(AttributeError):
        made.shape = 8


def test_no_structure_is_written_down_a_second_time() -> None:
    found = defaultdict[str, list[str]](list)
    for path in (
        path for floor in ("evaluators", "spaces", "codegen", "search") for path in (ROOT / floor).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                assert not any(ast.unparse(base).endswith("Structure") for base in node.bases), f"{path}: {node.name}"
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "structures":
                read, names = ast.unparse(node.args[0]).split("'")[1], [ast.literal_eval(arg) for arg in node.args[1:]]
                found[f"{path.parent.relative_to(ROOT)}/{read}"] += names
    assert {path: sorted(names) for path, names in found.items()} == {path: sorted(n) for path, n in SHARED.items()}
