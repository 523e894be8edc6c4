"""What the doctor says of the tools for hardware."""

from __future__ import annotations

from kilotune.experiments.commands.doctor import findings


def test_a_tool_of_two_families_is_found_once() -> None:
    tools = [line.split()[0] for line in findings() if "nextpnr" in line.split()[0]]
    assert sorted(tools) == ["nextpnr-ecp5", "nextpnr-ice40"]
