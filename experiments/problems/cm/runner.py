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
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

POISON = -(2**62)
GMEM = -1


class PacketBuffer:
    """A circular buffer in the memory of a core, and the state machine that watches it. Packets are numbered across images."""

    def __init__(self, edge: Any, machine: Any, memory: Any, writer: Any, reader: Any) -> None:
        self.machine, self.order, pixels = machine, reader.order, np.array(writer.pixels)
        self.sent = np.ones(len(pixels), np.int64) if edge["sent"] is None else edge["sent"]
        self.packets, self.number = int(self.sent.sum()), np.zeros(pixels.max(axis=0) + 1, np.int64)
        self.number[tuple(pixels.T)] = np.cumsum(self.sent) - self.sent
        self.packet, self.cells, size = indices(edge["packet"]), edge["cells"], edge["elements"]
        self.memory = memory[edge["address"] : edge["address"] + self.cells * size].reshape(self.cells, size)
        self.tags = np.full(self.cells, -1)
        self.issued = self.freed = 0
        self.limit = self.first = self.order.get(machine.initial(), -1) + 1

    def write(self, image: int, pixel: Any, values: Any) -> None:
        """The packet of a writer's iteration, and what it allows the reader."""
        self.memory[self.issued % self.cells], self.tags[self.issued % self.cells] = values[self.packet], self.issued
        self.issued += 1
        allowed = self.order.get(self.machine.written(*pixel), -1) + 1
        self.limit = max(self.limit, image * len(self.order) + allowed)
        if self.limit and self.limit % len(self.order) == 0:
            self.limit += self.first

    def read(self, image: int, rows: Any, columns: Any, elements: Any) -> Any:
        """Elements [elements, rows, columns] of the writer's pixels. RuntimeError where a packet is not there, or not any more."""
        numbers = image * self.packets + self.number[np.ix_(rows, columns)].reshape(-1)
        if (self.tags[numbers % self.cells] != numbers).any():
            raise RuntimeError("a packet that is not in its buffer was read")
        return self.memory[numbers % self.cells][:, elements].T.reshape(-1, len(rows), len(columns))

    def release(self, image: int, pixel: Any) -> None:
        """An iteration of the reader is over."""
        kept = self.machine.keeps(*pixel)
        self.freed = max(self.freed, image * self.packets + (self.packets if kept is None else int(self.number[kept])))


class StageCore:
    """What computes packets, pixel by pixel, from the buffers that it reads; or (None) the global memory, for one of its streams."""

    def __init__(self, machine: Any, pixels: Any, stage: Any) -> None:
        self.order = {pixel: iteration for iteration, pixel in enumerate(pixels)}
        self.machine, self.pixels, self.stage = machine, list(self.order), stage
        self.buffers: dict[int, PacketBuffer] = {}
        self.out: list[PacketBuffer] = []
        self.started, self.iterations = 0, len(machine.images) * len(self.pixels)

    def may_start(self) -> bool:
        """Whether an iteration is left, and the control unit and the readers' buffers allow it."""
        if self.started == self.iterations or any(b.limit <= self.started for b in self.buffers.values()):
            return False
        sent_to = (buffer for buffer in self.out if buffer.sent[self.started % len(self.pixels)])
        return all(buffer.issued - buffer.freed < buffer.cells for buffer in sent_to)

    def start(self) -> None:
        """The next iteration, whole."""
        image, iteration = divmod(self.started, len(self.pixels))
        pixel = row, column = self.pixels[iteration]
        packet = self.machine.images[image][:, row, column] if self.stage is None else self.packet(image, pixel)
        self.started += 1
        for buffer in self.buffers.values():
            buffer.release(image, pixel)
        for buffer in self.out:
            if buffer.sent[iteration]:
                buffer.write(image, pixel, packet)
        for piece in self.stage["results"] if self.stage else ():
            output = self.machine.outputs[piece["output"]]
            output[image, indices(piece["channels"]), row, column] = packet[indices(piece["elements"])]

    def packet(self, image: int, pixel: Any) -> Any:
        """What the stage's program makes of a pixel: each step writes the next register."""
        registers: list[Any] = []
        for step in self.stage["steps"]:
            operands = [registers[o] if isinstance(o, int) else self.window(o, image, pixel) for o in step["operands"]]
            registers.append(computed(step, operands, pixel))
        return np.concatenate([registers[k] for k in self.stage["exports"]])

    def window(self, operand: Any, image: int, pixel: Any) -> Any:
        """Channels [channels, rows, columns] of the kernel from the buffers; `fill` where nobody writes."""
        patch = np.full((operand["channels"], *operand["kernel"]), operand["fill"], np.int64)
        for load in operand["loads"]:
            rows, down = taps(load["rows"], pixel[0], operand["kernel"][0])
            columns, across = taps(load["columns"], pixel[1], operand["kernel"][1])
            if len(rows) and len(columns):
                buffer, place = self.buffers.get(load["edge"]), np.ix_(indices(load["target"]), down, across)
                patch[place] = buffer.read(image, rows, columns, indices(load["source"])) if buffer else 0
        return patch


def taps(axis: Any, place: int, kernel: int) -> tuple[Any, Any]:
    """Rows (columns) of the writer's pixels that lie in the window of a row (column), and their places in the kernel."""
    step, tap, offset, apart, first, last = axis
    found = place * step + np.arange(kernel) * tap + offset
    inside = (found % apart == 0) & (found >= first * apart) & (found < last * apart)
    return found[inside] // apart, np.flatnonzero(inside)


def linked(described: Any, arrays: Any) -> dict[str, Any]:
    """A step or an edge with the arrays that it names, all in the same integers, so that sums are exact; files have as few bytes as do."""
    named = {key: value for key, value in described.items() if isinstance(value, str) and value in arrays}
    return {**described, **{key: arrays[value].astype(np.int64) for key, value in named.items()}}


def computed(step: Any, operands: Any, pixel: Any) -> Any:
    """What an operation makes of its operands: of a window the crossbar's or the digital unit's, or the digital unit's of channels."""
    kind, x = step["operation"], operands[0].reshape(len(operands[0]), -1)
    if kind == "products":
        return products(step["matrix"], x.reshape(-1)[slice(*step["rows"])], step["converter"])
    if kind == "maximum":
        return x.max(axis=1)
    if kind == "average":
        count = int(step["divisors"][pixel])
        return (2 * (x.sum(axis=1) << step["left"]) + count) // (2 * count)
    x, *others = (o.reshape(-1) for o in operands)
    if kind == "affine":
        return x * step["scale"] + step["offset"]
    if kind == "add":
        terms = zip(step["signs"], (x, *others), step["shifts"], strict=True)
        return step["bias"] + sum(sign * shifted(term, right) for sign, term, right in terms)
    if kind == "product":
        return x * others[0]
    if kind == "table":
        places = np.clip(x - step["first"], 0, step["table"].shape[-1] - 1)
        return step["table"][places] if step["table"].ndim == 1 else step["table"][np.arange(len(places)), places]
    if kind == "first largest":
        return np.array([x.argmax()])
    return np.clip(shifted(x, step["right"]), step["low"], step["high"])


def products(matrix: Any, operand: Any, converter: Any) -> Any:
    """What a crossbar gives: exact, or each slice of the weights with each piece of the operand as a converter reads it, added up."""
    if converter is None:
        return matrix @ operand
    total, right, most = 0, converter["right"], converter["largest"]
    for place, cells in digits(matrix, converter["cell_bits"]):
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


def shifted(values: Any, right: Any) -> Any:
    """floor(x / 2**right + 1/2); to the left where `right` is negative."""
    down = np.maximum(right, 0)
    return ((values + (np.left_shift(1, down) >> 1)) >> down) << np.maximum(np.negative(right), 0)


def indices(which: Any) -> Any:
    """Elements: `first` and `last` of a range without its end, or a list."""
    return np.arange(which["first"], which["last"]) if isinstance(which, dict) else np.asarray(which, np.int64)


class MappedMachine:
    """All cores, and the global memory that sends the images."""

    def __init__(self, program: Any, arrays: Any, control: Any, images: Any) -> None:
        self.images = images
        self.outputs = [np.zeros((len(images), *output["shape"]), np.int64) for output in program["outputs"]]
        units = [control.STAGES[stage["name"]] for stage in program["stages"]]
        stages = [{**stage, "steps": [linked(step, arrays) for step in stage["steps"]]} for stage in program["stages"]]
        self.cores = [StageCore(self, unit[0].iterations(), stage) for unit, stage in zip(units, stages, strict=True)]
        self.sources: list[StageCore] = []
        memories = {s["core"]: np.full(s["memory_elements"], POISON, np.int64) for s in program["stages"]}
        watched = [iter(machines) for _, machines in units]
        for number, edge in enumerate(program["edges"]):
            reader = self.cores[edge["reader"]]
            if edge["writer"] == GMEM:
                self.sources.append(StageCore(self, control.GMEM.iterations(), None))
            writer = self.sources[-1] if edge["writer"] == GMEM else self.cores[edge["writer"]]
            memory, (_, unit) = memories[reader.stage["core"]], next(watched[edge["reader"]])
            reader.buffers[number] = PacketBuffer(linked(edge, arrays), unit, memory, writer, reader)
            writer.out.append(reader.buffers[number])

    def run(self, starts: list[Any] | None = None) -> Any:
        """The outputs; cores start when they may, or at the ticks at which every stage starts its iterations. RuntimeError where one may
        not then, because of its control unit, a buffer or another stage of its core, or where iterations are left that nobody may start."""
        if starts is None:
            while self.advance([*self.sources, *self.cores]):
                pass
        else:
            self.replay(starts)
        for core in self.cores:
            if core.started < core.iterations:
                raise RuntimeError(f"deadlock: {core.stage['name']} stopped after {core.started} iterations")
        return self.outputs

    def advance(self, cores: list[StageCore]) -> bool:
        """Whoever may start does; whether any did."""
        before = [core.started for core in cores]
        for core in cores:
            while core.may_start():
                core.start()
        return before != [core.started for core in cores]

    def replay(self, starts: list[Any]) -> None:
        """Iterations in the order of their ticks."""
        every = [(int(t), n) for n, core in enumerate(self.cores) for t in starts[n][: core.iterations]]
        free = {core.stage["core"]: POISON for core in self.cores}
        for tick, number in sorted(every):
            self.advance(self.sources)
            core = self.cores[number]
            if free[core.stage["core"]] > tick or not core.may_start():
                raise RuntimeError(f"{core.stage['name']} may not start at tick {tick}")
            free[core.stage["core"]] = tick + core.stage["ticks"]
            core.start()


def with_onnxruntime(path: Path, images: Any, program: Any) -> Any:
    """What onnxruntime computes of integers.onnx, each output [n, channels, height, width]."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    wanted = session.get_inputs()[0]
    found = [session.run(None, {wanted.name: i.astype(np.float32).reshape([1, *wanted.shape[1:]])}) for i in images]
    results = [np.concatenate(values) for values in zip(*found, strict=True)]
    outputs = zip(results, program["outputs"], strict=True)
    return [values.reshape(-1, *o["file_shape"]).transpose(o["file_axes"]) for values, o in outputs]


def stored_images(path: Path) -> Any:
    """The array `images` of an .npz. OSError for a file that cannot be read, ValueError for one of another kind or without it."""
    try:
        return np.load(path)["images"]
    except (EOFError, LookupError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"expected an .npz file with an array 'images', found another one ({error})") from None


def as_integers(images: Any, scale: Any) -> Any:
    """Images as the network takes them: real ones scaled, rounded and limited, whole ones as they are. ValueError for what is none."""
    if images.dtype.kind not in "iuf" or list(images.shape[1:]) != scale["shape"] or not len(images):
        expected = f"numbers [n, {', '.join(map(str, scale['shape']))}]"
        raise ValueError(f"expected {expected}, found {images.dtype} {list(images.shape)}")
    if not np.isfinite(images).all():
        raise ValueError("expected finite numbers, found an infinity or none")
    low, high = scale["low"], scale["high"]
    if images.dtype.kind == "f":
        return np.clip(np.rint(images.astype(np.float64) * 2.0 ** -scale["exponent"]), low, high).astype(np.int64)
    if images.min() < low or images.max() > high:
        raise ValueError(f"expected whole numbers from {low} to {high} (real ones are scaled), found one outside")
    return images.astype(np.int64)


def main() -> int:
    """Run, compare, say how many elements differ."""
    parser = argparse.ArgumentParser(description="Runs a mapped network from its exported files.")
    parser.add_argument("--images", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--schedule", action="store_true")
    parser.add_argument("--onnxruntime", action="store_true")
    asked = parser.parse_args()
    folder = Path(__file__).resolve().parent
    program, arrays = json.loads((folder / "program.json").read_text()), np.load(folder / "program.npz")
    try:
        images = as_integers(stored_images(asked.images or folder / "program.npz"), program["image"])
    except (OSError, ValueError) as error:
        parser.error(f"--images: {error}")
    if asked.schedule and len(images) > len(arrays["images"]):
        parser.error(
            f"--schedule: expected at most {len(arrays['images'])} images, whose ticks are known, found {len(images)}"
        )
    machine = MappedMachine(program, arrays, SimpleNamespace(**runpy.run_path(str(folder / "lcu.py"))), images)
    outputs = machine.run([arrays[f"stage{k}.starts"] for k in range(len(machine.cores))] if asked.schedule else None)
    if asked.output is not None:
        np.savez(asked.output, **{f"output{k}": values for k, values in enumerate(outputs)})
    if asked.images is not None and not asked.onnxruntime:
        print(f"{len(images)} images executed")
        return 0
    expected = [arrays[f"output{k}.expected"] for k in range(len(outputs))]
    if asked.onnxruntime:
        expected = with_onnxruntime(folder / "integers.onnx", images, program)
    different = sum(int((found != wanted).sum()) for found, wanted in zip(outputs, expected, strict=True))
    print(f"{len(images)} images, {sum(found.size for found in outputs)} elements, {different} different")
    return int(different > 0)


if __name__ == "__main__":
    raise SystemExit(main())
