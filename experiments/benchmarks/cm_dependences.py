"""What the relation S of an edge costs: by isl, as generated code, and enumerated in NumPy. CPU milliseconds an edge.

python -m kilotune.experiments.benchmarks.cm_dependences
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from kilotune.codegen.cm.access import AccessPattern, Rectangle, allowed, counts
from kilotune.codegen.cm.lcu import state_machine
from kilotune.codegen.cm.polyhedral import dependences
from kilotune.codegen.onnx.graph import Window

REPEATS = 20


def reading(size: int, stride: int, residual: bool) -> AccessPattern:
    """A same-padded 3 x 3 convolution over size x size, with the pixel of the addition behind it."""
    window = Window((3, 3), (stride, stride), (1, 1, 1, 1))
    outputs = -(-size // stride)
    windows = (window, Window((1, 1), (stride, stride))) if residual else (window,)
    return AccessPattern(windows, Rectangle(0, outputs, 0, outputs), Rectangle(0, size, 0, size))


def milliseconds(action: Callable[[], object]) -> float:
    """CPU time of one call, the mean of some."""
    began = time.process_time()
    for _ in range(REPEATS):
        action()
    return 1000 * (time.process_time() - began) / REPEATS


def main() -> None:
    """Print a row an access."""
    dependences(reading(4, 1, False))  # loads islpy
    print("edge                        isl relations  state machine  NumPy   staircases agree")
    for size in (8, 32, 112, 224):
        for stride, residual in ((1, False), (2, False), (1, True)):
            edge = reading(size, stride, residual)
            found = (
                milliseconds(partial(dependences, edge, 64)),
                milliseconds(partial(state_machine, edge)),
                milliseconds(partial(counts, edge)),
            )
            name = f"{size}x{size}, stride {stride}{', residual' if residual else ''}"
            print(f"{name:<27} {found[0]:13.2f} {found[1]:14.2f} {found[2]:6.3f}   {_agree(edge)}")


def _agree(edge: AccessPattern) -> bool:
    """Whether the state machine walks NumPy's staircase."""
    machine, limits = state_machine(edge), allowed(counts(edge)[0], edge.writer.size).tolist()
    first = machine.initial()
    limit = 0 if first is None else edge.reader.rank(*first) + 1
    walked = [limit]
    for i in range(edge.writer.size):
        reached = machine.written(*edge.writer.pixel(i))
        limit = limit if reached is None else max(limit, edge.reader.rank(*reached) + 1)
        walked.append(limit)
    return bool(walked == limits)


if __name__ == "__main__":
    main()
