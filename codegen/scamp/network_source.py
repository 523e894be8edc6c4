"""A network as C++ for the chip: the image made black and white, kernels, thresholds, addresses of set pixels, counts and dense layers.

Programs leave register F alone: it takes the levels. A result is compared where the program has it, by adding minus its threshold
into F. Each kernel's set pixels go into a digital register of their own, R5 to R12, which `scamp5_scan_events` reads out.
"""

from __future__ import annotations

from collections.abc import Iterator

from kilotune.codegen.scamp.macros import as_macros, format_macros
from kilotune.codegen.scamp.network import ChipNetwork, DenseLayer
from kilotune.codegen.scamp.program import ScampProgram

LEVEL_REGISTER = "F"
FIRST_DIGITAL, MOST_MAPS = 5, 8
"""R5 to R12 are free: the first four digital registers are the chip's own."""

LEAST_EVENTS, MOST_EVENTS = 1000, (1 << 16) - 1
"""Set pixels of a kernel that are read: so many, which is more than a digit has, and of a larger image one for each of its pixels, up to
what the chip's library counts to."""

ARRAY_MIDDLE = 128
"""Row and column."""


def network_obstacle(program: ScampProgram, network: ChipNetwork) -> str | None:
    """Why a network has no header, a sentence; None where it has one. Raises as `macros.as_macros`."""
    kernels, lowest = len(network.thresholds), min(network.thresholds, default=0)
    if kernels > MOST_MAPS:
        return f"each kernel's set pixels take a digital register, the chip has {MOST_MAPS} for them, and there are {kernels} kernels."
    if LEVEL_REGISTER in as_macros(program).registers:
        return f"the thresholds need register {LEVEL_REGISTER}, which the program's macros take."
    if lowest < 0:
        return (
            f"with a threshold of {lowest} every element of the array beside the image is set, and would be read first."
        )
    return None


def format_network(program: ScampProgram, network: ChipNetwork) -> str:
    """One header; `classify()` takes a frame and returns its class. Raises as `macros.as_macros`, and ValueError with what
    `network_obstacle` says."""
    if (obstacle := network_obstacle(program, network)) is not None:
        raise ValueError(f"There is no C++ of the whole network: {obstacle}")
    macros = as_macros(program)  # whose results may be in other registers
    lines = [
        format_macros(macros).rstrip("\n"),
        "",
        *_thresholds(network),
        "",
        *(line for number, layer in enumerate(network.layers, start=1) for line in _table(number, layer)),
        *_regions(network),
        "",
        *_classify(macros, network),
    ]
    return "\n".join(lines) + "\n"


def _thresholds(network: ChipNetwork) -> Iterator[str]:
    yield "// Keeps where a result is above its threshold; called between two kernels of macros."
    yield "template <int KERNEL, class Register>"
    yield "inline void keep_above(Register result, int threshold)"
    yield "{"
    yield "    using namespace SCAMP5_PE;"
    yield "    scamp5_in(F, -threshold);"
    yield "    scamp5_kernel_begin();"
    yield "        add(F, result, F);"
    for kernel in range(1, len(network.thresholds) + 1):
        register = f"R{FIRST_DIGITAL + kernel - 1}"
        yield f"        if (KERNEL == {kernel}) {{ CLR({register}); where(F); MOV({register}, FLAG); }}"
    yield "        all();"
    yield "    scamp5_kernel_end();"
    yield "}"


def _table(number: int, layer: DenseLayer) -> Iterator[str]:
    rows = ", ".join("{" + ", ".join(map(str, row)) + "}" for row in layer.weights)
    yield f"static const int WEIGHTS{number}[{len(layer.weights)}][{len(layer.biases)}] = {{{rows}}};"
    yield f"static const int BIASES{number}[{len(layer.biases)}] = {{{', '.join(map(str, layer.biases))}}};"


def _regions(network: ChipNetwork) -> Iterator[str]:
    rows = ", ".join(f"{{{r.top}, {r.left}, {r.bottom}, {r.right}}}" for r in network.regions)
    yield f"static const int REGIONS[{len(network.regions)}][4] = {{{rows}}};  // top, left, bottom, right"


def _classify(program: ScampProgram, network: ChipNetwork) -> Iterator[str]:
    kernels, side = len(network.thresholds), network.side
    events = min(max(LEAST_EVENTS, side * side), MOST_EVENTS)
    top = left = ARRAY_MIDDLE - side // 2
    yield "inline int classify()"
    yield "{"
    yield "    using namespace SCAMP5_PE;"
    yield "    // A pixel of 128 is a charge of nothing, and `where` asks for more than nothing."
    yield f"    scamp5_in(F, {129 - network.binarised_at});"
    yield "    scamp5_get_image(A, B, 1);"
    yield f"    scamp5_draw_begin(R6); scamp5_draw_rect({top}, {left}, {top + side - 1}, {left + side - 1}); scamp5_draw_end();"
    yield "    scamp5_kernel_begin();"
    yield "        add(A, A, F); CLR(R5); where(A); MOV(R5, FLAG); all(); AND(R5, R5, R6); res(A);"
    yield "    scamp5_kernel_end();"
    yield f"    scamp5_in(F, {network.level});"
    yield "    scamp5_kernel_begin(); WHERE(R5); mov(A, F); all(); scamp5_kernel_end();"
    if program.read_after:
        yield "    // Each result is kept as it is finished: its register is written again."
        calls = " ".join(
            f"if (kernel == {k}) keep_above<{k}>(result, {threshold});"
            for k, threshold in enumerate(network.thresholds, start=1)
        )
        yield f"    convolve([](int kernel, auto result) {{ scamp5_kernel_end(); {calls} scamp5_kernel_begin(); }});"
    else:
        yield "    convolve();"
        for kernel, (register, threshold) in enumerate(zip(program.results, network.thresholds, strict=True), start=1):
            yield f"    keep_above<{kernel}>({register}, {threshold});"
    yield f"    static int counts[{kernels * len(network.regions)}];"
    yield f"    static uint8_t events[{2 * events}];"
    yield "    for (int& count : counts) count = 0;"
    for kernel in range(kernels):
        yield f"    scamp5_scan_events(R{FIRST_DIGITAL + kernel}, events, {events});"
        yield f"    for (int e = 0; e < {events} && (events[2 * e] || events[2 * e + 1]); e++) {{"
        yield f"        const int column = events[2 * e] - {left}, row = events[2 * e + 1] - {top};"
        yield f"        for (int r = 0; r < {len(network.regions)}; r++)"
        yield "            if (row >= REGIONS[r][0] && column >= REGIONS[r][1] && row < REGIONS[r][2] && column < REGIONS[r][3])"
        yield f"                counts[{kernel * len(network.regions)} + r]++;"
        yield "    }"
    yield from _dense(network)
    yield "}"


def _dense(network: ChipNetwork) -> Iterator[str]:
    values = "counts"
    for number, layer in enumerate(network.layers, start=1):
        inputs, outputs = len(layer.weights), len(layer.biases)
        yield f"    static long long values{number}[{outputs}];"
        yield f"    for (int o = 0; o < {outputs}; o++) {{"
        yield f"        long long sum = BIASES{number}[o];"
        yield f"        for (int i = 0; i < {inputs}; i++) sum += static_cast<long long>(WEIGHTS{number}[i][o]) * {values}[i];"
        rectified = "sum" if number == len(network.layers) else "sum > 0 ? sum : 0"
        yield f"        values{number}[o] = {rectified};"
        yield "    }"
        values = f"values{number}"
    yield "    int best = 0;"
    yield f"    for (int o = 1; o < {len(network.layers[-1].biases)}; o++)"
    yield f"        if ({values}[o] > {values}[best]) best = o;"
    yield "    return best;"
