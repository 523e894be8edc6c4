"""What the linked bytes of a program on a simulated Uno are made of.

    python -m kilotune.experiments.benchmarks.linked_bytes [--setting 8/16|narrower|all] [--trials N] [MODEL ...]

For the best program of each bundled classifier, as `stored_parameters` finds it: parameters by type, tables, the code of each operation
and of the functions that operations share, and what is there besides. Code is told apart by the line table of a build with -gdwarf-2,
which does not change it: an instruction belongs to the operation, or the function, from whose lines of C it was made.
"""

from __future__ import annotations

import argparse
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator

from elftools.elf.elffile import ELFFile

from kilotune.codegen.emit.c import emit_c
from kilotune.evaluators.architectures.avr.firmware import build_firmware
from kilotune.evaluators.simulated import of_emitted
from kilotune.experiments.benchmarks.stored_parameters import BUNDLED, SETTINGS, searched
from kilotune.experiments.problems.fixed_point.problem import ModelProblem, resolve_input
from kilotune.search.space import Trial

_FUNCTION = re.compile(r"^(?:KT_\w+|static|int|void) .*?\b(\w+)\(.*[^;]$")
_OPERATION = re.compile(r"^ *(?:/\*|//) \S+:\d+:\d+: (.*?) \*/$")
_ARRAY = re.compile(r"^static const (\w+) (\w+)\[\d+\] KT_FLASH")


def owners(source: str) -> list[str]:
    """For each line of emitted C the operation, or outside the entry the function, that it belongs to."""
    owner, found = "elsewhere", []
    for line in source.splitlines():
        function, operation = _FUNCTION.match(line), _OPERATION.match(line)
        if operation is not None:
            owner = operation[1]
        elif function is not None:
            owner = f"{function[1]}()"
        found.append(owner)
    return found


def code_lines(image: bytes, name: str) -> Iterator[tuple[int, int]]:
    """(bytes, line) of the code that was made from lines of the file `name`."""
    dwarf = ELFFile(io.BytesIO(image)).get_dwarf_info()
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is None:
            continue
        states = [entry.state for entry in program.get_entries() if entry.state is not None]
        for state, after in itertools.pairwise(states):
            ours = program["file_entry"][state.file - 1].name.decode() == name
            if ours and not state.end_sequence:
                yield after.address - state.address, state.line


def linked_bytes(problem: ModelProblem, trial: Trial) -> dict[str, int]:
    """Bytes of flash by what they are for."""
    batch, task = problem.lower(trial.assignment), problem.space.task
    source = emit_c(batch, task.parameters, problem.space.evaluator.footprint.placed(batch.bits[0]).offsets)
    artefact = of_emitted(source)
    firmware = build_firmware(artefact, "atmega328p", defines=["-gdwarf-2"])
    names = {m[2]: f"parameters, {m[1]}" for line in source.source.splitlines() if (m := _ARRAY.match(line))}
    found: Counter[str] = Counter()
    for name, what in names.items():
        symbol = firmware.elf.symbols.get(name)
        kind = "tables" if name.startswith("kt_table") else what
        found[kind] += symbol.size_bytes if symbol else 0
    by_line = owners(source.source)
    for size, line in code_lines(firmware.image, f"{artefact.name}.c"):
        found[by_line[line - 1]] += size
    found["start-up, vectors, main and what is not told apart"] = firmware.sizes.flash_bytes - sum(found.values())
    return dict(found)


def main() -> None:
    """Print, for each model, what its bytes are for, the largest first."""
    arguments = argparse.ArgumentParser(description="What the linked bytes of a program are made of.")
    arguments.add_argument("models", nargs="*")
    arguments.add_argument("--setting", choices=list(SETTINGS), default="8/16")
    arguments.add_argument("--trials", type=int, default=6000)
    given = arguments.parse_args()
    for name in given.models or BUNDLED:
        options = {"accuracy_drop": 0.0, **SETTINGS[given.setting]}
        problem, best = searched(str(resolve_input(name)), options, given.trials, 1)
        if best is None:
            print(f"{name}: nothing feasible")
            continue
        found = linked_bytes(problem, best)
        print(f"{name}, {given.setting}: {sum(found.values())} bytes")
        for what, size in sorted(found.items(), key=lambda item: -item[1]):
            print(f"  {size:5} {what}")


if __name__ == "__main__":
    main()
