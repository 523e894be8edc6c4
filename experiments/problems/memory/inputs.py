"""What --input of the space `memory` may be, and which reader takes it."""

from __future__ import annotations

from dataclasses import replace
from math import lcm
from pathlib import Path

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.file_kinds import FileKind, kind_of_file
from kilotune.codegen.language.parser import LIBRARIES as PARSER_LIBRARIES
from kilotune.codegen.onnx.arena import read_arena as read_onnx_arena
from kilotune.codegen.tensor_graph import TensorGraph
from kilotune.codegen.tflite.arena import ALIGNMENT_BYTES
from kilotune.codegen.tflite.arena import read_arena as read_tflite_arena
from kilotune.experiments.models.catalogue import PLACEMENTS, model_names, model_path
from kilotune.experiments.problems.fixed_point.buffers import DEFAULT_BITS, as_instance, buffers_of_bundle
from kilotune.experiments.problems.memory.options import PlacementOptions
from kilotune.search.suggestion import did_you_mean
from kilotune.spaces.memory.csv_files import read_instance
from kilotune.spaces.memory.heap_traces import HEAP_TRACES, read_heap_trace
from kilotune.spaces.memory.idealloc_files import PLC, read_plc
from kilotune.spaces.memory.instance import Instance
from kilotune.spaces.memory.tensor_buffers import buffers_in_order

DEFAULT_INSTANCE = "fastgrnn-digits"


def resolve_input(text: str | None) -> Path:
    """The path of a file, of the bundled CSV that `text` names, or of a model's folder. InputError: it is none."""
    if text is None:
        return PLACEMENTS / f"{DEFAULT_INSTANCE}.csv"
    path = Path(text)
    if path.exists():
        return path.resolve()
    bundled = PLACEMENTS / f"{text}.csv"
    if bundled in PLACEMENTS.glob("*.csv"):
        return bundled
    if text in model_names():
        return model_path(text)
    expected = (
        f"a CSV file id,lower,upper,size[,alignment], a TFLite or ONNX file, a model, or {', '.join(input_names())}"
    )
    raise InputError(text, expected=expected, found=f"neither{did_you_mean(text, input_names())}")


def input_names() -> tuple[str, ...]:
    """The bundled instances and models."""
    return (*sorted(path.stem for path in PLACEMENTS.glob("*.csv")), *model_names())


def libraries_of_input(path: Path) -> tuple[str, ...]:
    """What reads it, to be imported before a clock starts."""
    if path.is_dir():
        return PARSER_LIBRARIES
    kind = kind_of_file(path)
    if kind is None:
        return ("google.protobuf.text_format",) if path.suffix in HEAP_TRACES else ()
    return ("tflite",) if kind is FileKind.TFLITE else ("onnx", "onnx.shape_inference")


def read_graph(path: Path) -> TensorGraph | None:
    """The operators and tensors of a TFLite or ONNX file; None for anything else. InputError for what cannot be used."""
    kind = kind_of_file(path)
    if kind is FileKind.TFLITE or (kind is None and path.suffix == ".tflite"):
        return read_tflite_arena(path)
    if kind is FileKind.ONNX or (kind is None and path.suffix == ".onnx"):
        return read_onnx_arena(path)
    return None


def load_instance(path: Path, options: PlacementOptions) -> Instance:
    """The buffers of a file, or of a model with 16-bit variables. InputError for what cannot be used, ValueError for an option that does
    not go with it."""
    graph = None if path.is_dir() else read_graph(path)
    is_csv = not path.is_dir() and graph is None and path.suffix not in (*HEAP_TRACES, PLC)
    if options.inclusive and not is_csv:
        raise ValueError(f"--inclusive says how the lifetimes of a CSV end: expected a CSV as --input, found {path}.")
    if options.heap is not None and path.suffix not in HEAP_TRACES:
        raise ValueError(f"--heap chooses one of XLA's heap traces: expected a file of them as --input, found {path}.")
    if graph is not None:
        return buffers_in_order(graph, graph.file_order, alignment_of(path, options))
    found = _buffers(path, options)
    step = options.alignment or 1
    return found if step == 1 else _aligned(found, step)


def load_graph(path: Path) -> TensorGraph:
    """The operators of a file whose order can be searched. InputError for what cannot be used, ValueError for one without operators."""
    graph = None if path.is_dir() else read_graph(path)
    if graph is None:
        raise ValueError(
            f"--order search needs the operators of a network: expected a TFLite or ONNX file, found {path}."
        )
    return graph


def alignment_of(path: Path, options: PlacementOptions) -> int:
    """Bytes of which all addresses of a network's tensors are multiples: what is asked for, or what the runtime of such files has."""
    if options.alignment is not None:
        return options.alignment
    return ALIGNMENT_BYTES if kind_of_file(path) is FileKind.TFLITE else 1


def _buffers(path: Path, options: PlacementOptions) -> Instance:
    if path.is_dir():
        return as_instance(path.name, buffers_of_bundle(str(path), DEFAULT_BITS))
    if path.suffix == PLC:
        return read_plc(path)
    if path.suffix in HEAP_TRACES:
        return read_heap_trace(path, options.heap)
    return read_instance(path, bool(options.inclusive))


def _aligned(instance: Instance, step: int) -> Instance:
    """Every address a multiple of `step`, too."""
    return Instance(instance.name, tuple(replace(b, alignment=lcm(b.alignment, step)) for b in instance.buffers))
