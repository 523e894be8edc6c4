"""Gates and clock of hardware as the open tools find them: synthesis by Yosys, place and route by nextpnr, kept by content."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kilotune.codegen.rtl.plan import HardwarePlan
from kilotune.evaluators.compiled_library import cache_folder
from kilotune.evaluators.fpga import multiplier_registers
from kilotune.evaluators.fpga.boards import FAMILIES, Board, GateFamily, Gates, counted_gates
from kilotune.evaluators.fpga.placer_refusals import device_is_full, pins_are_short, pins_wanted, was_placed
from kilotune.evaluators.fpga.tools import (
    LONGEST_RUN_S,
    NO_AMARANTH,
    SYNTHESISER,
    MissingToolError,
    NoEndError,
    ToolChoice,
    ToolError,
    run_tool,
)

WANTED_MHZ = 100
"""What the placer is asked for; it says what it reaches."""

SEED = "1"

SECOND_PLACER = ("--placer", "static")
"""What nextpnr is given where its usual placer (heap) does not end: this one took eight minutes for a design of 81 % of an ECP5-25F's
look-up tables (the paper's hints of cnn-exercises), which was routed afterwards, where the usual one did not end in 25."""

PREPARING = "Preparing to run"
"""How a line begins that a wheel's tool prints the first time it is run, whatever it is asked."""

PLACERS = 3
"""How many ways of placing and routing a design there were when it was kept that none of them ended: a placer, another placer, another
router."""

FIRST_ROUTER_S = 600
"""How long a family's usual router is waited for where there is a second one. nextpnr's for iCE40s takes back what it has routed until no
two ways meet, which never ends for some designs and seeds: the worked example on an HX8K, 27 % of its cells, is routed in seconds with two
seeds and not at all with a third."""

CONFLICT = "Driver-driver conflict"
"""A warning of Yosys: it drops all drivers but one, and goes on."""


@dataclass(frozen=True)
class Implementation:
    """`gates` of a design on a board, and the clock that place and route reaches; None where the board is for synthesis only. `options`:
    what the placer was given besides `placing_arguments`."""

    gates: Gates
    clock_mhz: float | None
    options: tuple[str, ...] = ()


class NoRoomError(ToolError):
    """A design that the board has no room for: by its gates, or because the placer says so or does not end. `least`: what synthesis has
    counted, where that is too much."""

    def __init__(self, message: str, log: str = "", least: Gates | None = None) -> None:
        super().__init__(message, log)
        self.least = least


class TooFewPinsError(ToolError):
    """A design with more pins than the board's package has: so has every other one with the same features and results."""


def implement(plan: HardwarePlan, board: Board, seconds: float = LONGEST_RUN_S) -> Implementation:
    """Synthesise, place and route a plan's hardware; each tool gets `seconds`, the placer once more with SECOND_PLACER where it has found
    no places, or with a second router of the family where that has not ended. NoRoomError when the board has too few gates, when the
    placer says that it is full, or when a tool does not end; TooFewPinsError when the placer has no place for a pin; these are kept too.
    ToolError when a tool is missing, or fails for another reason: the message says where all that it said is kept."""
    rtlil = _rtlil(plan)
    try:
        kept = _kept_file(rtlil, board)
        if kept.exists():
            return _stored(kept)
        _refuse_again(kept, board, seconds)
        return _made_and_kept(rtlil, board, kept, seconds)
    except MissingToolError:
        raise
    except ToolError as error:
        if not error.log:
            raise
        log = cache_folder() / f"failed-{hashlib.sha256(f'{rtlil}{board}'.encode()).hexdigest()[:20]}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(error.log)
        said = f"{error} All that it said is in {log}."
        if isinstance(error, NoRoomError):
            raise NoRoomError(said, error.log, error.least) from None
        kind = TooFewPinsError if isinstance(error, TooFewPinsError) else ToolError
        raise kind(said, error.log) from None


def _made_and_kept(rtlil: str, board: Board, kept: Path, seconds: float) -> Implementation:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            made = _implemented(rtlil, board, folder, seconds)
        except NoEndError as error:
            _write(folder, _unplaced_file(kept), {"seconds": seconds, "said": str(error), "placers": PLACERS})
            raise NoRoomError(str(error)) from None
        except (NoRoomError, TooFewPinsError) as error:
            full = isinstance(error, NoRoomError)
            least = asdict(error.least) if isinstance(error, NoRoomError) and error.least is not None else None
            said = {"said": str(error), "log": error.log, "least": least, "full": full}
            _write(folder, _refused_file(kept, board), said)
            raise
        _write(folder, kept, asdict(made))
    return made


def _unplaced_file(kept: Path) -> Path:
    """Where it is kept that a tool did not end in some time."""
    return kept.with_name(kept.name.replace("gates-", "unplaced-"))


def _refused_file(kept: Path, board: Board) -> Path:
    """Where it is kept that a board has no room, or too few pins: boards of one part may be given other gates."""
    return kept.with_name(f"refused-{hashlib.sha256(f'{kept.stem}{board}'.encode()).hexdigest()[:20]}.json")


def _refuse_again(kept: Path, board: Board, seconds: float) -> None:
    """What the tools have raised before, where they have refused the design, or were given as long, and one did not end."""
    unplaced, refused = _unplaced_file(kept), _refused_file(kept, board)
    if unplaced.exists():
        stored = json.loads(unplaced.read_text())
        if stored["seconds"] >= seconds and stored.get("placers", 1) >= PLACERS:
            raise NoRoomError(stored["said"])
    if refused.exists():
        stored = json.loads(refused.read_text())
        if not stored.get("full", True):
            raise TooFewPinsError(stored["said"], stored["log"])
        raise NoRoomError(stored["said"], stored["log"], None if stored["least"] is None else Gates(**stored["least"]))


def _write(scratch: Path, kept: Path, content: Mapping[str, Any]) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    (scratch / "kept.json").write_text(json.dumps(content))
    _move(scratch / "kept.json", kept)


def kept_implementation(plan: HardwarePlan, board: Board) -> Implementation | None:
    """What `implement` has found before; None where it has not been asked. ToolError without the tools, whose versions it depends on."""
    kept = _kept_file(_rtlil(plan), board)
    return _stored(kept) if kept.exists() else None


def _rtlil(plan: HardwarePlan) -> str:
    try:
        from kilotune.evaluators.fpga.verilog import emit_rtlil  # Amaranth is an extra
    except ModuleNotFoundError:
        raise MissingToolError(NO_AMARANTH) from None
    return emit_rtlil(plan)


@cache
def _version(tool: ToolChoice, option: str, path: str | None) -> str:
    """What the tool at `path` says of itself; asked once, since starting one takes longer than reading what it has found before."""
    said = run_tool(tool, [option], Path(tempfile.gettempdir()))
    return "".join(line for line in said.splitlines(keepends=True) if not line.startswith(PREPARING))


def _kept_file(rtlil: str, board: Board) -> Path:
    family = FAMILIES[board.family]
    versions = [_version(SYNTHESISER, "-V", SYNTHESISER.find())]
    if family.placer is not None:
        versions.append(_version(family.placer, "--version", family.placer.find()))
    if family.registers_move:
        versions.append(Path(multiplier_registers.__file__).read_text(encoding="utf-8"))
    key = "\0".join((rtlil, family.synthesis, *family.options, *board.part, str(WANTED_MHZ), SEED, *versions))
    return cache_folder() / f"gates-{hashlib.sha256(key.encode()).hexdigest()[:20]}.json"


def _stored(kept: Path) -> Implementation:
    stored = json.loads(kept.read_text())
    return Implementation(Gates(**stored["gates"]), stored["clock_mhz"], tuple(stored.get("options", ())))


def _move(made: Path, kept: Path) -> None:
    """Under its own name at once, so that nobody reads half a file."""
    with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
        copy = Path(scratch) / kept.name
        copy.write_text(made.read_text())
        copy.replace(kept)


def _implemented(rtlil: str, board: Board, folder: Path, seconds: float) -> Implementation:
    family = FAMILIES[board.family]
    (folder / "model.il").write_text(rtlil)
    script = f"read_rtlil model.il; {family.synthesis}; tee -o statistics.txt stat"
    said = run_tool(SYNTHESISER, ["-q", "-p", script], folder, seconds)
    if CONFLICT in said:
        raise ToolError(
            f"{SYNTHESISER.name} has made other hardware than it was given: two drivers of one signal.", said
        )
    least = _counted((folder / "statistics.txt").read_text(), family)
    for kind, (taken, there) in least.missing(board.gates).items():
        raise NoRoomError(
            f"The design needs at least {counted_gates(taken, kind)}; {board.name} has {there}.", least=least
        )
    if family.placer is None:
        return Implementation(least, None)
    if family.registers_move:
        multiplier_registers.change_file(str(folder / "model.json"))
    try:
        options = _placed(board, family.placer, folder, seconds)
    except NoEndError as error:
        raise NoEndError(f"The design is not placed on {board.name}: {error}", error.log) from None
    except MissingToolError:
        raise
    except ToolError as error:
        if device_is_full(error.log, family):
            raise NoRoomError(f"The design is not placed on {board.name}, which is full: {error}", error.log) from None
        if pins_are_short(error.log):
            wanted = pins_wanted(error.log)
            has = "" if wanted is None else f"; the design has {wanted}"
            raise TooFewPinsError(
                f"The design is not placed on {board.name}, whose package has too few pins{has}: {error}", error.log
            ) from None
        raise ToolError(
            f"The design is not placed on {board.name}, and a smaller one is not asked for: {error}", error.log
        ) from None
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    used = {kind: int(report["utilization"].get(name, {"used": 0})["used"]) for kind, name in family.placed.items()}
    clock = min(float(path["achieved"]) for path in report["fmax"].values())
    return Implementation(Gates(**used), clock, options)


def _placed(board: Board, placer: ToolChoice, folder: Path, seconds: float) -> tuple[str, ...]:
    """Place and route model.json; the options of the placer that ended. Where the first run has found no places in its time, the second
    placer is asked; where it was routing by then, the family's second router, if it has one. ToolError as `run_tool`: of the second run,
    whose options older versions do not have, only that it found the device full."""
    family = FAMILIES[board.family]
    arguments = [*placing_arguments(board, WANTED_MHZ), "--report", "report.json"]
    try:
        run_tool(placer, arguments, folder, min(seconds, FIRST_ROUTER_S) if family.second_router else seconds)
        return ()
    except NoEndError as no_end:
        further = family.second_router if was_placed(no_end.log) else SECOND_PLACER
        if not further:
            raise
        try:
            run_tool(placer, [*arguments, *further], folder, seconds)
        except ToolError as error:
            if device_is_full(error.log, family):
                raise
            raise no_end from None
        return further


def placing_arguments(board: Board, mhz: float) -> list[str]:
    """What a board's placer is given for model.json, which synthesis has written; `mhz`: what it is asked for, and may miss."""
    options = FAMILIES[board.family].options
    return [*board.part, *options, "--freq", f"{mhz:g}", "--seed", SEED, "--timing-allow-fail", "--json", "model.json"]


def _counted(statistics: str, family: GateFamily) -> Gates:
    """The gates in a table that Yosys has printed: lines of a name and a number, in the order that its version prefers."""
    used: dict[str, int] = {}
    for line in statistics.splitlines():
        words = line.split()
        if len(words) == 2 and sum(word.isdigit() for word in words) == 1:
            name, count = words if words[1].isdigit() else words[::-1]
            used[name] = int(count)
    cells = family.cells.items()
    return Gates(**{kind: sum(each * used.get(name, 0) for name, each in names.items()) for kind, names in cells})
