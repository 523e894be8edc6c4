"""Random accesses, and the plain definition of what they make a reader wait for."""

from __future__ import annotations

import random

from kilotune.codegen.cm.access import AccessPattern, Rectangle
from kilotune.codegen.onnx.graph import Window


def random_reading(rng: random.Random) -> AccessPattern:
    """Sizes, kernels, strides, padding and dilation at random, or a transposed convolution's; sometimes a second window (a
    residual), sometimes replicas."""
    high, wide = rng.randint(1, 9), rng.randint(1, 9)

    def window() -> tuple[Window, tuple[int, int]]:
        while True:
            kernel, stride = (rng.randint(1, 4), rng.randint(1, 4)), (rng.randint(1, 3), rng.randint(1, 3))
            top, left, bottom, right = (rng.randint(0, 4) for _ in range(4))
            drawn = Window(kernel, stride, (top, left, bottom, right), (rng.randint(1, 3), rng.randint(1, 3)))
            if rng.random() < 0.2:
                drawn = Window(kernel, pads=drawn.pads, spread=(rng.randint(1, 3), rng.randint(1, 3)))
            size = drawn.output_size(high, wide)
            if min(size) >= 1:
                return drawn, size

    first, size = window()
    windows = [first]
    if rng.random() < 0.5:
        more = (window() for _ in range(40))
        windows += [second for second, other in more if other == size][:1]
        if len(windows) == 1 and size == (high, wide):
            windows.append(Window())
    top = rng.randint(0, size[0] - 1) if rng.random() < 0.3 else 0
    left = rng.randint(0, size[1] - 1) if rng.random() < 0.3 else 0
    first_row = rng.randint(0, high - 1) if rng.random() < 0.3 else 0
    writer = Rectangle(first_row, high, 0, wide, by_columns=rng.random() < 0.3)
    return AccessPattern(tuple(windows), Rectangle(top, size[0], left, size[1]), writer)


def pixels_read(reading: AccessPattern) -> list[set[int]]:
    """By reader iteration: the writer iterations whose pixels it reads."""
    found = []
    for j in range(reading.reader.size):
        oh, ow = reading.reader.pixel(j)
        read = set()
        for window in reading.windows:
            for kh in range(window.kernel[0]):
                for kw in range(window.kernel[1]):
                    h = oh * window.stride[0] - window.pads[0] + kh * window.dilation[0]
                    w = ow * window.stride[1] - window.pads[1] + kw * window.dilation[1]
                    if h % window.spread[0] or w % window.spread[1]:
                        continue
                    h, w = h // window.spread[0], w // window.spread[1]
                    writer = reading.writer
                    if writer.top <= h < writer.bottom and writer.left <= w < writer.right:
                        read.add(writer.rank(h, w))
        found.append(read)
    return found


def allowed_by_definition(reading: AccessPattern) -> list[int]:
    """After n writer iterations, n = 0, 1, ...: the reader iterations of which all reads, and all before them, are written."""
    reads = pixels_read(reading)
    found = []
    for n in range(reading.writer.size + 1):
        allowed = 0
        while allowed < len(reads) and all(i < n for i in reads[allowed]):
            allowed += 1
        found.append(allowed)
    return found


def released_by_definition(reading: AccessPattern) -> list[int]:
    """After each reader iteration: the first writer iterations that no later one reads."""
    reads = pixels_read(reading)
    found = []
    for j in range(len(reads)):
        later = set().union(*reads[j + 1 :])
        found.append(min(later, default=reading.writer.size))
    return found
