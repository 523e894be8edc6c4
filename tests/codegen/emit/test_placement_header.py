"""The C header of a placement, compiled."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kilotune.codegen.emit.placement_header import PlacedBlock, placement_header

HOSTILE = "a */ b /* ??/ c\\"


def test_the_constants_are_what_was_placed(tmp_path: Path) -> None:
    """Names that C does not take, that meet each other, or that would end a comment."""
    blocks = [
        PlacedBlock("conv/relu:0", "", 16, 40, 0, 3),
        PlacedBlock("conv.relu 0", "", 64, 40, 3, 4),
        PlacedBlock(HOSTILE, "", 7, 1, 0, 1),
        PlacedBlock("x" * 90 + "1", "", 8, 1, 0, 1),
        PlacedBlock("x" * 90 + "2", "", 9, 1, 0, 1),
        PlacedBlock("a", "ccm", 5, 1, 0, 1),
    ]
    text = placement_header("1 net", (("", 104, 16), ("ccm", 6, 1)), blocks)
    (tmp_path / "placement.h").write_text(text)
    expected = {
        "B_1_NET_ARENA_BYTES": 104,
        "B_1_NET_ARENA_ALIGNMENT": 16,
        "B_1_NET_CCM_ARENA_BYTES": 6,
        "B_1_NET_OFFSET_CONV_RELU_0": 16,
        "B_1_NET_OFFSET_CONV_RELU_0_2": 64,
        "B_1_NET_OFFSET_A_B_C": 7,
        f"B_1_NET_OFFSET_{'X' * 39}1": 8,
        f"B_1_NET_OFFSET_{'X' * 39}2": 9,
        "B_1_NET_CCM_OFFSET_A": 5,
    }
    checks = "".join(f'_Static_assert({name} == {value}, "{name}");\n' for name, value in expected.items())
    (tmp_path / "check.c").write_text(
        f'#include "placement.h"\n#include "placement.h"\n{checks}int main(void) {{ return 0; }}\n'
    )
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "check.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
