"""Runs a mapped network from its exported files: program.json, program.npz and lcu.py beside this file. Needs Python and NumPy only.

    python runner.py                        the images that were exported, against their expected results
    python runner.py --schedule             the same, iterations in the order in which the accelerator starts them
    python runner.py --onnxruntime          the same, against integers.onnx in onnxruntime
    python runner.py --images FILE.npz --output FILE.npz      an array `images` [n, channels, height, width], real or of whole numbers

Cores start iterations when their control units (the state machines of lcu.py) allow it and their packets find room, read operands
from circular buffers in their memories, and send packets. All numbers are integers. What the files hold is in program.json's
"about", and in kilotune's documentation. The exit status is 1 when something differs.
"""

from __future__ import annotations

import argparse
import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

POISON = -(2**62)
GMEM = -1
PIXEL = {"kernel": [1, 1], "stride": [1, 1], "pads": [0, 0], "dilation": [1, 1], "spread": [1, 1]}


class PacketBuffer:
    """A circular buffer in the memory of a core, and the state machine that watches it. Packets are numbered across images."""

    def __init__(self, edge: dict[str, Any], machine: Any, memory: Any, arrays: Any, readers: Any) -> None:
        self.machine, self.readers = machine, readers
        self.top, self.bottom, self.left, self.right = edge["rectangle"]
        self.high, self.wide = self.bottom - self.top, self.right - self.left
        self.by_columns, self.pixels = edge["by_columns"], self.high * self.wide
        sent = np.ones(self.pixels, bool) if edge["sent"] is None else arrays[edge["sent"]].astype(bool)
        self.sent, self.before = sent, np.concatenate(([0], np.cumsum(sent)))
        self.packet, self.cells, self.packets = indices(edge["packet"]), edge["cells"], int(sent.sum())
        size = edge["elements"]
        self.memory = memory[edge["address"] : edge["address"] + self.cells * size].reshape(self.cells, size)
        self.tags = np.full(self.cells, -1)
        self.issued = self.freed = 0
        self.limit = self.first = self.count(machine.initial())

    def count(self, pixel: tuple[int, int] | None) -> int:
        """Iterations of the reader up to this pixel of its own."""
        return 0 if pixel is None else self.readers[pixel] + 1

    def rank(self, row: Any, column: Any) -> Any:
        """Which of the writer's iterations writes a pixel."""
        y, x = row - self.top, column - self.left
        return x * self.high + y if self.by_columns else y * self.wide + x

    def has_room(self) -> bool:
        """For one packet more."""
        return bool(self.issued - self.freed < self.cells)

    def write(self, image: int, rank: int, values: Any) -> None:
        """The packet of a writer's iteration, and what it allows the reader."""
        number = image * self.packets + int(self.before[rank])
        self.memory[number % self.cells] = values[self.packet]
        self.tags[number % self.cells] = number
        self.issued += 1
        y, x = reversed(divmod(rank, self.high)) if self.by_columns else divmod(rank, self.wide)
        reached = self.machine.written(self.top + y, self.left + x)
        if reached is not None:
            self.limit = max(self.limit, image * len(self.readers) + self.count(reached))
        if self.limit and self.limit % len(self.readers) == 0:
            self.limit += self.first

    def read(self, image: int, ranks: Any) -> Any:
        """Packets by writer's iterations. RuntimeError where one is not there, or not any more."""
        numbers = self.before[ranks] + image * self.packets
        if (self.tags[numbers % self.cells] != numbers).any():
            raise RuntimeError("a packet that is not in its buffer was read")
        return self.memory[numbers % self.cells]

    def release(self, image: int, row: int, column: int) -> None:
        """An iteration of the reader is over."""
        kept = self.machine.keeps(row, column)
        done = self.packets if kept is None else int(self.before[self.rank(*kept)])
        self.freed = max(self.freed, image * self.packets + done)


class StageCore:
    """A stage: its programmed cells, the program of its digital unit, and the buffers that it reads."""

    def __init__(self, stage: dict[str, Any], loop: Any, arrays: Any) -> None:
        self.stage, self.arrays = stage, arrays
        self.buffers: dict[int, PacketBuffer] = {}
        self.pixels = list(loop.iterations())
        self.started = 0
        head = stage["head"] or {}
        self.converter = head.get("converter")
        if "matrix" in head:
            matrix = arrays[head["matrix"]].astype(np.int64)
            self.cells = digits(matrix, self.converter["cell_bits"] if self.converter else 0)

    def run(self, image: int, row: int, column: int) -> Any:
        """The packet of an iteration."""
        stage, registers = self.stage, []
        if stage["head"] is not None:
            registers.append(self.head(stage["head"], image, row, column))
            for edge in stage["partials"]:
                registers[0] = registers[0] + self.at(edge, image, row, column)
            if stage["bias"] is not None:
                registers[0] = registers[0] + self.arrays[stage["bias"]]
        for step in stage["dpu"]:
            operands = [
                registers[o["register"]] if "register" in o else self.window(PIXEL, o, 0, image, row, column)[:, 0, 0]
                for o in step["operands"]
            ]
            registers.append(digital(step, operands, self.arrays))
        return np.concatenate([registers[k] for k in stage["exports"]])

    def head(self, head: dict[str, Any], image: int, row: int, column: int) -> Any:
        """What the window gives: products, or the digital unit's maximum, average, border or first largest channel."""
        kind, patch = head["kind"], self.window(head, head["operand"], head["fill"], image, row, column)
        top, bottom, left, right = head["zeros_at"]
        if top <= row < bottom and left <= column < right:
            patch[head["zeros"]] = 0
        if kind == "products":
            first, last = head["rows"]
            return products(self.cells, patch.reshape(-1)[first:last], self.converter)
        if kind == "maximum":
            return patch.max(axis=(1, 2))
        if kind == "average":
            count = int(self.arrays[head["divisors"]][row, column])
            return (2 * (patch.sum(axis=(1, 2)) << head["left"]) + count) // (2 * count)
        return np.array([patch[:, 0, 0].argmax()]) if kind == "first largest" else patch[:, 0, 0]

    def window(self, shape: Any, operand: dict[str, Any], fill: int, image: int, row: int, column: int) -> Any:
        """Channels and taps from the buffers; `fill` where nobody writes."""
        patch = np.full((operand["channels"], *shape["kernel"]), fill, np.int64)
        for load in operand["loads"]:
            buffer = self.buffers[load["edge"]]
            y, y_taps = taps(shape, load, 0, row, buffer.top, buffer.bottom)
            x, x_taps = taps(shape, load, 1, column, buffer.left, buffer.right)
            if len(y) and len(x):
                found = buffer.read(image, buffer.rank(y[:, None], x[None, :]).reshape(-1))[:, indices(load["source"])]
                patch[np.ix_(indices(load["target"]), y_taps, x_taps)] = found.T.reshape(-1, len(y), len(x))
        return patch

    def at(self, edge: int, image: int, row: int, column: int) -> Any:
        """The packet of a pixel."""
        buffer = self.buffers[edge]
        return buffer.read(image, np.array([buffer.rank(row, column)]))[0]


def taps(head: dict[str, Any], load: dict[str, Any], axis: int, place: int, first: int, last: int) -> tuple[Any, Any]:
    """Rows (columns) of the writer's pixels that lie in the window, and their places in the kernel."""
    apart, steps = head["spread"][axis], np.arange(head["kernel"][axis])
    found = place * head["stride"][axis] - head["pads"][axis] + steps * head["dilation"][axis]
    found = found * load["stride"][axis] + load["offset"][axis]
    inside = (found % apart == 0) & (found >= first * apart) & (found < last * apart)
    return found[inside] // apart, steps[inside]


def products(slices: Any, operand: Any, converter: dict[str, Any] | None) -> Any:
    """What a crossbar gives: exact, or each slice of the weights with each piece of the operand as a converter reads it, added up."""
    if converter is None:
        return slices[0][1] @ operand
    total, right, most = 0, converter["right"], converter["largest"]
    for place, cells in slices:
        for further, piece in digits(operand, converter["piece_bits"]):
            total = total + (np.clip(shifted(cells @ piece, right), -most, most) << (right + place + further))
    return total


def digits(integers: Any, bits: int) -> Any:
    """So many bits of the magnitudes at a time, with signs, and their places, the lowest first; 0: the integers themselves."""
    if not bits:
        return [(0, integers)]
    magnitudes, signs = np.abs(integers), np.sign(integers)
    places = range(0, max(1, int(magnitudes.max(initial=0)).bit_length()), bits)
    return [(place, signs * ((magnitudes >> place) & ((1 << bits) - 1))) for place in places]


def digital(step: dict[str, Any], operands: Any, arrays: Any) -> Any:
    """One operation of a digital unit on the channels of a pixel."""
    x, kind = operands[0], step["operation"]
    if kind == "affine":
        return x * arrays[step["scale"]] + arrays[step["offset"]]
    if kind == "add":
        return sum(shifted(o, s) for o, s in zip(operands, step["shifts"], strict=True))
    if kind == "product":
        return x * operands[1]
    if kind == "table":
        table = arrays[step["table"]]
        places = np.clip(x - step["first"], 0, table.shape[-1] - 1)
        return table[places] if table.ndim == 1 else table[np.arange(len(table)), places]
    right = arrays[step["right"]] if isinstance(step["right"], str) else step["right"]
    return np.clip(shifted(x, right), step["low"], step["high"])


def shifted(values: Any, right: Any) -> Any:
    """floor(x / 2**right + 1/2); to the left where `right` is negative."""
    down = np.maximum(right, 0)
    return ((values + (np.left_shift(1, down) >> 1)) >> down) << np.maximum(np.negative(right), 0)


def indices(which: Any) -> Any:
    """Elements: `first` and `last` of a range without its end, or a list."""
    return np.arange(which["first"], which["last"]) if isinstance(which, dict) else np.asarray(which, np.int64)


class MappedMachine:
    """All cores, and the global memory that sends the images."""

    def __init__(self, program: dict[str, Any], arrays: Any, control: Any, images: Any) -> None:
        self.program, self.edges = program, program["edges"]
        self.cores = [StageCore(stage, control.STAGES[stage["name"]][0], arrays) for stage in program["stages"]]
        memories = {s["core"]: np.full(s["memory_elements"], POISON, np.int64) for s in program["stages"]}
        watched = [iter(control.STAGES[stage["name"]][1]) for stage in program["stages"]]
        self.buffers: list[PacketBuffer] = []
        self.out_of: list[list[PacketBuffer]] = [[] for _ in self.cores]
        for number, edge in enumerate(self.edges):
            reader, core = edge["reader"], self.cores[edge["reader"]]
            order = {pixel: k for k, pixel in enumerate(core.pixels)}
            buffer = PacketBuffer(edge, next(watched[reader])[1], memories[core.stage["core"]], arrays, order)
            core.buffers[number] = buffer
            self.buffers.append(buffer)
            if edge["writer"] != GMEM:
                self.out_of[edge["writer"]].append(buffer)
        self.sources = [b for b, edge in zip(self.buffers, self.edges, strict=True) if edge["writer"] == GMEM]
        self.position = [0] * len(self.sources)
        by_columns = program["image"]["by_columns"]
        ordered = images.transpose(0, 1, 3, 2) if by_columns else images
        self.images = ordered.reshape(len(images), images.shape[1], -1).transpose(0, 2, 1)
        self.outputs = [np.zeros((len(images), *output["shape"]), np.int64) for output in program["outputs"]]

    def feed(self) -> None:
        """The global memory sends all that finds room, in order."""
        for k, buffer in enumerate(self.sources):
            while self.position[k] < len(self.images) * buffer.pixels:
                image, rank = divmod(self.position[k], buffer.pixels)
                if buffer.sent[rank]:
                    if not buffer.has_room():
                        break
                    buffer.write(image, rank, self.images[image, rank])
                self.position[k] += 1

    def may_start(self, number: int) -> bool:
        """Whether the control unit and the readers' buffers allow a core its next iteration."""
        core = self.cores[number]
        rank = core.started % len(core.pixels)
        if core.started == len(self.images) * len(core.pixels):
            return False
        allowed = all(buffer.limit > core.started for buffer in core.buffers.values())
        return allowed and all(buffer.has_room() for buffer in self.out_of[number] if buffer.sent[rank])

    def start(self, number: int) -> None:
        """The next iteration of a core, whole."""
        core = self.cores[number]
        image, rank = divmod(core.started, len(core.pixels))
        row, column = core.pixels[rank]
        packet = core.run(image, row, column)
        core.started += 1
        for buffer in core.buffers.values():
            buffer.release(image, row, column)
        for buffer in self.out_of[number]:
            if buffer.sent[rank]:
                buffer.write(image, rank, packet)
        for result, output in zip(self.outputs, self.program["outputs"], strict=True):
            for piece in output["pieces"]:
                if piece["stage"] == number:
                    result[image, indices(piece["channels"]), row, column] = packet[indices(piece["elements"])]

    def run(self) -> Any:
        """Whoever may start does. RuntimeError when nobody may and something is left."""
        going = True
        while going:
            self.feed()
            going = False
            for number in range(len(self.cores)):
                while self.may_start(number):
                    self.start(number)
                    going = True
        return self.finished()

    def replay(self, starts: list[Any]) -> Any:
        """By the ticks at which every stage starts its iterations. RuntimeError where a control unit, a buffer or another stage of its
        core forbids one."""
        every = [
            (int(t), n) for n, ticks in enumerate(starts) for t in ticks[: len(self.images) * len(self.cores[n].pixels)]
        ]
        free = {core.stage["core"]: -(2**62) for core in self.cores}
        for tick, number in sorted(every):
            self.feed()
            stage = self.cores[number].stage
            if free[stage["core"]] > tick or not self.may_start(number):
                raise RuntimeError(f"{stage['name']} may not start at tick {tick}")
            free[stage["core"]] = tick + stage["ticks"]
            self.start(number)
        return self.finished()

    def finished(self) -> Any:
        """The outputs."""
        for core in self.cores:
            if core.started < len(self.images) * len(core.pixels):
                raise RuntimeError(f"deadlock: {core.stage['name']} stopped after {core.started} iterations")
        return self.outputs


def whole_numbers(images: Any, scale: dict[str, Any]) -> Any:
    """Images as the network's integers; whole numbers of an integer type are left as they are."""
    if images.dtype.kind in "iu":
        return images.astype(np.int64)
    return np.clip(np.rint(images.astype(np.float64) * 2.0 ** -scale["exponent"]), scale["low"], scale["high"]).astype(
        np.int64
    )


def widened(arrays: Any) -> dict[str, Any]:
    """All in the same integers, so that sums are exact; they are stored in as few bytes as they need."""
    return {name: array.astype(np.int64) if array.dtype.kind == "i" else array for name, array in arrays.items()}


def with_onnxruntime(path: Path, images: Any, program: dict[str, Any]) -> Any:
    """What onnxruntime computes of integers.onnx."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    wanted = session.get_inputs()[0]
    found = [session.run(None, {wanted.name: i.astype(np.float32).reshape([1, *wanted.shape[1:]])}) for i in images]
    results = zip(*found, strict=True)
    return [ordered(np.concatenate(x), output) for x, output in zip(results, program["outputs"], strict=True)]


def ordered(values: Any, output: dict[str, Any]) -> Any:
    """A file's result as [n, channels, height, width]."""
    channels, high, wide = output["shape"]
    last = output["channels_last"]
    values = values.reshape((-1, high, wide, channels) if last else (-1, channels, high, wide))
    return np.moveaxis(values, 3, 1) if last else values


def main() -> int:
    """Run, compare, say how many elements differ."""
    parser = argparse.ArgumentParser(description="Runs a mapped network from its exported files.")
    parser.add_argument("--images", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--schedule", action="store_true")
    parser.add_argument("--onnxruntime", action="store_true")
    asked = parser.parse_args()
    folder = Path(__file__).resolve().parent
    program, arrays = json.loads((folder / "program.json").read_text()), widened(np.load(folder / "program.npz"))
    control = SimpleNamespace(**runpy.run_path(str(folder / "lcu.py")))
    images = arrays["images"] if asked.images is None else np.load(asked.images)["images"]
    images = whole_numbers(images, program["image"]).reshape(-1, *program["image"]["shape"])
    machine = MappedMachine(program, arrays, control, images)
    starts = [arrays[f"stage{k}.starts"] for k in range(len(machine.cores))] if asked.schedule else None
    outputs = machine.run() if starts is None else machine.replay(starts)
    if asked.output is not None:
        np.savez(asked.output, **{f"output{k}": values for k, values in enumerate(outputs)})
    if asked.onnxruntime:
        expected = with_onnxruntime(folder / "integers.onnx", images, program)
    elif asked.images is None:
        expected = [arrays[f"output{k}.expected"] for k in range(len(outputs))]
    else:
        print(f"{len(images)} images executed")
        return 0
    different = sum(int((found != wanted).sum()) for found, wanted in zip(outputs, expected, strict=True))
    print(f"{len(images)} images, {sum(found.size for found in outputs)} elements, {different} different")
    return int(different > 0)


if __name__ == "__main__":
    raise SystemExit(main())
