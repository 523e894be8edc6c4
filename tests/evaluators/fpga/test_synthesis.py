"""Gates and clocks by the real tools; a run is made once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kilotune.codegen.rtl.plan import make_plan
from kilotune.evaluators.fpga import synthesis
from kilotune.evaluators.fpga.boards import FAMILIES, Gates, find_board
from kilotune.evaluators.fpga.cost_model import estimate
from kilotune.evaluators.fpga.synthesis import Implementation, NoRoomError, TooFewPinsError, implement
from kilotune.evaluators.fpga.tools import YOSYS, ToolChoice, ToolError
from kilotune.experiments.benchmarks.hardware_probes import unit_probe
from tests.codegen.rtl.models import candidate

pytestmark = pytest.mark.slow

PLACER = FAMILIES["ecp5"].placer
assert PLACER is not None
needs_tools = pytest.mark.skipif(
    YOSYS.find() is None or PLACER.find() is None, reason=f"no Yosys or no nextpnr: {YOSYS.advice}, {PLACER.advice}"
)


def use(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """An empty cache, and whichever Yosys starts sooner: the wheel's compiles itself for a minute when it first runs."""
    monkeypatch.setenv("KILOTUNE_CACHE", str(cache))
    monkeypatch.setattr(synthesis, "SYNTHESISER", YOSYS)


@needs_tools
def test_a_small_design_is_placed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two products of 16 bits take a multiplier each; the second time nothing is run."""
    use(monkeypatch, tmp_path)
    bundle, batch = candidate("worked-example")
    plan, board = make_plan(batch, bundle.parameters), find_board("ecp5-25f")
    made = implement(plan, board)
    assert made.gates.multipliers == 2
    assert made.gates.block_rams == 0
    assert 100 < made.gates.luts < 1000
    assert not made.gates.missing(board.gates)
    assert made.clock_mhz is not None
    assert 40 < made.clock_mhz < 400

    def again(*_: object) -> None:
        raise AssertionError("the run is kept")

    monkeypatch.setattr(synthesis, "_implemented", again)
    assert implement(plan, board) == made
    with pytest.raises(AssertionError, match="the run is kept"):
        implement(plan, replace(board, part=("--45k", "--package", "CABGA381")))


@needs_tools
def test_a_design_that_is_not_placed_is_said_and_leaves_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, tmp_path)
    bundle, batch = candidate("worked-example")
    board = replace(find_board("ecp5-25f"), name="odd", part=("--25k", "--package", "NO-SUCH-PACKAGE"))
    with pytest.raises(ToolError, match=r"odd, and a smaller one is not asked for: nextpnr-ecp5 failed") as found:
        implement(make_plan(batch, bundle.parameters), board)
    assert not isinstance(found.value, NoRoomError), "a smaller design would meet the same package"
    assert "NO-SUCH-PACKAGE" in found.value.log
    assert not list(tmp_path.glob("gates-*"))


@pytest.mark.skipif(YOSYS.find() is None, reason=f"no Yosys: {YOSYS.advice}")
def test_what_is_only_synthesised_has_no_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, tmp_path)
    bundle, batch = candidate("worked-example")
    made = implement(make_plan(batch, bundle.parameters), find_board("artix7-35t"))
    assert made.clock_mhz is None
    assert made.gates.multipliers == 2
    assert made.gates != Gates(0, 0, 0, 0)


@pytest.mark.skipif(YOSYS.find() is None, reason=f"no Yosys: {YOSYS.advice}")
def test_a_design_that_a_board_has_too_few_gates_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, tmp_path)
    bundle, batch = candidate("worked-example")
    known = find_board("ecp5-25f")
    board = replace(known, name="small", gates=replace(known.gates, multipliers=1))
    with pytest.raises(ToolError, match=r"^The design needs at least 2 multipliers; small has 1\.$"):
        implement(make_plan(batch, bundle.parameters), board)


def test_what_a_board_has_no_room_for_is_not_synthesised_again_but_on_another_board(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, tmp_path / "cache")
    asked = tmp_path / "asked"
    does = f"echo once >> {asked}; echo '{{}}' > model.json; echo 'LUT4 300' > statistics.txt"
    (tmp_path / "quick-yosys").write_text(f'#!/bin/sh\ncase "$*" in -V) echo 1; exit 0;; esac\n{does}\n')
    (tmp_path / "quick-yosys").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(synthesis, "SYNTHESISER", ToolChoice(("quick-yosys",), None, "", "gates"))
    monkeypatch.setattr(synthesis, "FAMILIES", {"ecp5": replace(FAMILIES["ecp5"], placer=None, registers_move=False)})
    bundle, batch = candidate("worked-example")
    plan, known = make_plan(batch, bundle.parameters), find_board("ecp5-25f")
    for luts, times in ((200, 1), (200, 1), (299, 2)):
        with pytest.raises(NoRoomError, match=rf"^The design needs at least 300 LUTs; ecp5-25f has {luts}\.$") as found:
            implement(plan, replace(known, gates=replace(known.gates, luts=luts)))
        assert found.value.least == Gates(luts=300)
        assert asked.read_text().split() == ["once"] * times
    assert implement(plan, known).gates == Gates(luts=300)


def failing_tools(monkeypatch: pytest.MonkeyPatch, folder: Path, statistics: str, placer_says: str) -> Path:
    """Tools that end at once, the placer with an error; the file that their names are written to whenever they are run."""
    use(monkeypatch, folder / "cache")
    asked = folder / "asked"
    for name, does in (
        ("quick-yosys", f"echo '{{}}' > model.json; echo '{statistics}' > statistics.txt"),
        ("quick-nextpnr", f"echo '{placer_says}' >&2; exit 125"),
    ):
        answers = f'case "$*" in *ersion|-V) echo 1; exit 0;; esac; echo {name} >> {asked}; {does}'
        (folder / name).write_text(f"#!/bin/sh\n{answers}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(synthesis, "SYNTHESISER", ToolChoice(("quick-yosys",), None, "", "gates"))
    placer = ToolChoice(("quick-nextpnr",), None, "", "places")
    families = {"ecp5": replace(FAMILIES["ecp5"], placer=placer, registers_move=False)}
    monkeypatch.setattr(synthesis, "FAMILIES", families)
    return asked


@pytest.mark.parametrize(
    ("says", "kind", "kept"),
    [
        ("ERROR: Unable to find a placement location for cell `rst$tr_io`", TooFewPinsError, True),
        ("ERROR: Unable to place cell `m`, no BELs remaining to implement cell type `DP16KD`", NoRoomError, True),
        ("ERROR: Unsupported package", ToolError, False),
    ],
)
def test_what_a_placer_says_of_the_design_is_kept_and_what_it_says_of_how_it_was_asked_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, kind: type[ToolError], kept: bool
) -> None:
    asked = failing_tools(monkeypatch, tmp_path, "", says.replace("`", "'\"'\"'"))
    bundle, batch = candidate("worked-example")
    plan, board = make_plan(batch, bundle.parameters), find_board("ecp5-25f")
    found = []
    for _ in range(2):
        with pytest.raises(kind) as raised:
            implement(plan, board)
        assert type(raised.value) is kind
        found.append((str(raised.value), raised.value.log))
    assert found[0] == found[1]
    assert "All that it said is in" in found[0][0]
    assert asked.read_text().split() == ["quick-yosys", "quick-nextpnr"] * (1 if kept else 2)


def test_a_synthesiser_that_does_not_even_say_its_version_leaves_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, tmp_path / "cache")
    broken = tmp_path / "broken-yosys"
    broken.write_text("#!/bin/sh\necho loading\necho 'error: a library is missing' >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(synthesis, "SYNTHESISER", ToolChoice((broken.name,), None, "", "gates"))
    bundle, batch = candidate("worked-example")
    with pytest.raises(ToolError, match=r"failed with status 127: error: a library is missing\. All that it") as found:
        implement(make_plan(batch, bundle.parameters), find_board("ecp5-25f"))
    (log,) = (tmp_path / "cache").glob("failed-*.log")
    assert str(log) in str(found.value)
    assert log.read_text() == "loading\nerror: a library is missing\n"


def test_what_a_tool_says_once_is_no_part_of_its_version(tmp_path: Path) -> None:
    """YoWASP's say so when they compile themselves; what the first process made was not found by the next one."""
    tool = tmp_path / "late-yosys"
    tool.write_text("#!/bin/sh\necho Preparing to run $0. This might take a while... >&2\necho Yosys 0.70\n")
    tool.chmod(0o755)
    choice = ToolChoice((str(tool),), None, "", "gates")
    assert synthesis._version(choice, "-V", str(tool)) == "Yosys 0.70\n"


@pytest.mark.skipif(YOSYS.find() is None, reason=f"no Yosys: {YOSYS.advice}")
def test_multipliers_of_an_ultraplus_keep_the_signs_of_what_is_shifted_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Yosys' pass `ice40_dsp` made constants of the products of this probe: no multiplier and one memory of three were left."""
    use(monkeypatch, tmp_path)
    ultraplus = find_board("ice40-up5k")
    family = replace(FAMILIES[ultraplus.family], placer=None)
    monkeypatch.setattr(synthesis, "FAMILIES", {ultraplus.family: family})
    made = implement(unit_probe(0).plan, ultraplus).gates
    expected = estimate(unit_probe(0).plan, ultraplus).gates
    assert (made.multipliers, made.block_rams) == (expected.multipliers, expected.block_rams) == (1, 3)
    packed = replace(family, synthesis="synth_ice40 -dsp -top model -json model.json")
    monkeypatch.setattr(synthesis, "FAMILIES", {ultraplus.family: packed})
    with pytest.raises(ToolError, match=r"has made other hardware than it was given: two drivers of one signal\."):
        implement(unit_probe(0).plan, ultraplus)


def test_a_placer_that_does_not_end_is_not_asked_again_for_as_long(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever gives it longer asks it again."""
    use(monkeypatch, tmp_path / "cache")
    asked = tmp_path / "asked"
    for name, does in (
        ("slow-yosys", "echo '{}' > model.json; echo '' > statistics.txt"),
        ("slow-nextpnr", "sleep 20"),
    ):
        answers = f'case "$*" in *ersion|-V) echo 1; exit 0;; esac; echo {name} >> {asked}; {does}'
        (tmp_path / name).write_text(f"#!/bin/sh\n{answers}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(synthesis, "SYNTHESISER", ToolChoice(("slow-yosys",), None, "", "gates"))
    placer = ToolChoice(("slow-nextpnr",), None, "", "places")
    families = {"ecp5": replace(FAMILIES["ecp5"], placer=placer, registers_move=False)}
    monkeypatch.setattr(synthesis, "FAMILIES", families)
    bundle, batch = candidate("worked-example")
    plan, board = make_plan(batch, bundle.parameters), find_board("ecp5-25f")
    said = r"^The design is not placed on ecp5-25f: slow-nextpnr did not end within 0\.5 seconds\.$"
    for _ in range(2):
        with pytest.raises(NoRoomError, match=said):
            implement(plan, board, 0.5)
    assert asked.read_text().split() == ["slow-yosys", "slow-nextpnr", "slow-nextpnr"]
    with pytest.raises(NoRoomError, match=r"within 0\.6 seconds"):
        implement(plan, board, 0.6)
    assert asked.read_text().split() == ["slow-yosys", "slow-nextpnr", "slow-nextpnr"] * 2
    asked.unlink()
    slow = (tmp_path / "slow-nextpnr").read_text()
    (tmp_path / "slow-nextpnr").write_text(slow.replace("sleep", "echo 'Info: Setting up routing queue.'; sleep"))
    with pytest.raises(NoRoomError, match=r"within 0\.7 seconds"):
        implement(plan, board, 0.7)
    assert asked.read_text().split() == ["slow-yosys", "slow-nextpnr"], "it was routing: no other placer is asked"


def test_a_second_placer_is_asked_where_the_first_does_not_end_and_what_it_was_given_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, tmp_path / "cache")
    report = '{"utilization": {"TRELLIS_COMB": {"used": 7}}, "fmax": {"clk": {"achieved": 50.0}}}'
    for name, does in (
        ("quick-yosys", "echo '{}' > model.json; echo '' > statistics.txt"),
        ("stuck-nextpnr", f"case \"$*\" in *'--placer static'*) echo '{report}' > report.json;; *) sleep 20;; esac"),
    ):
        (tmp_path / name).write_text(f'#!/bin/sh\ncase "$*" in *ersion|-V) echo 1; exit 0;; esac; {does}\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(synthesis, "SYNTHESISER", ToolChoice(("quick-yosys",), None, "", "gates"))
    placer = ToolChoice(("stuck-nextpnr",), None, "", "places")
    families = {"ecp5": replace(FAMILIES["ecp5"], placer=placer, registers_move=False)}
    monkeypatch.setattr(synthesis, "FAMILIES", families)
    bundle, batch = candidate("worked-example")
    plan, board = make_plan(batch, bundle.parameters), find_board("ecp5-25f")
    made = implement(plan, board, 0.5)
    assert made == Implementation(Gates(luts=7), 50.0, ("--placer", "static"))
    older = "case \"$*\" in *ersion) echo 1;; *'--placer static'*) echo 'ERROR: no such placer'; exit 1;; *) sleep 20;; esac"
    (tmp_path / "stuck-nextpnr").write_text(f"#!/bin/sh\n{older}\n")
    assert implement(plan, board, 0.5) == made, "kept"
    with pytest.raises(NoRoomError, match=r"stuck-nextpnr did not end within 0\.5 seconds"):
        implement(plan, replace(board, part=("--45k", "--package", "CABGA381")), 0.5)


def test_a_second_router_is_asked_where_the_first_does_not_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not the second placer: the design had its places. The first router is given no more than a share of the time."""
    use(monkeypatch, tmp_path / "cache")
    report = '{"utilization": {"ICESTORM_LC": {"used": 7}}, "fmax": {"clk": {"achieved": 50.0}}}'
    stuck = f"""echo 'Info: Setting up routing queue.'
case "$*" in *'--router router2'*) echo '{report}' > report.json;; *) sleep 20;; esac"""
    for name, does in (("quick-yosys", "echo '{}' > model.json; echo '' > statistics.txt"), ("stuck-nextpnr", stuck)):
        (tmp_path / name).write_text(f'#!/bin/sh\ncase "$*" in *ersion|-V) echo 1; exit 0;; esac; {does}\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(synthesis, "SYNTHESISER", ToolChoice(("quick-yosys",), None, "", "gates"))
    monkeypatch.setattr(synthesis, "FIRST_ROUTER_S", 0.5)
    placer = ToolChoice(("stuck-nextpnr",), None, "", "places")
    monkeypatch.setattr(synthesis, "FAMILIES", {"ice40": replace(FAMILIES["ice40"], placer=placer)})
    bundle, batch = candidate("worked-example")
    made = implement(make_plan(batch, bundle.parameters), find_board("ice40-hx8k"), 300)
    assert made == Implementation(Gates(luts=7), 50.0, ("--router", "router2"))
