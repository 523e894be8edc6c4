"""What becomes of every single-operator model of the onnx package, and of every estimator that skl2onnx converts.

    python -m kilotune.experiments.benchmarks.operator_coverage [--only nodes|estimators] [--match TEXT] [--sentences]

Each model is imported as `tune --input` does and executed as a float program. A model is `equal` where all results are within 1e-5 (of
types of fewer bits within what the type can say), `refused` where one sentence says why not, `wrong` where the program computes something
else and nobody said so, and `crashed` where anything but such a sentence ended the import. The last two must be 0; with any, the exit
status is 1.

A program has one input and one output: of an operator with several inputs the first real one stays, and the others become constants with
the values of the package's own example; of one with several outputs each is a model of its own. What an operator should return is said by
the example; where onnxruntime executes the model, by onnxruntime for other inputs as well.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

from kilotune.codegen.array_files import RealArray
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle
from kilotune.experiments.benchmarks.converted_estimators import estimator_verdicts

TOLERANCE = 1e-5

HALF_TOLERANCE = 1e-2
"""For results of 16 bits and fewer."""

EXAMPLE_DIGITS = 1e-3
"""To how much of themselves the package's examples are written down."""

OTHER_INPUTS = 4
"""How many more inputs onnxruntime is asked about."""

REAL = ("float16", "float32", "float64", "bfloat16")

VERDICTS = ("equal", "refused", "wrong", "crashed")


@dataclass(frozen=True)
class Verdict:
    """What became of a model: one of VERDICTS, and a sentence where it is not `equal`."""

    name: str
    operator: str
    verdict: str
    sentence: str = ""


@dataclass(frozen=True, eq=False)
class OperatorModel:
    """A model of one input and one output, an input `given` and the `expected` output."""

    name: str
    operator: str
    proto: onnx.ModelProto
    given: np.ndarray
    expected: Any


def operator_models(match: str) -> Iterator[OperatorModel]:
    """Every single-operator model of the installed onnx package whose name has `match` in it, once for each output."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        if case.model is None or not case.data_sets or match not in case.name or case.name.endswith("_expanded"):
            continue
        inputs, outputs = case.data_sets[0]
        place = _varying(case.model, inputs)
        named = [value for value in case.model.graph.output if value.name]
        for number, (value, expected) in enumerate(zip(named, outputs, strict=False)):
            proto = _with_constants(case.model, inputs, place)
            del proto.graph.output[:]
            proto.graph.output.append(value)
            given = inputs[place] if len(inputs) and isinstance(inputs[place], np.ndarray) else np.zeros(0)
            stem = case.name.removeprefix("test_")
            operator = case.model.graph.node[0].op_type
            yield OperatorModel(stem if number == 0 else f"{stem} output {number}", operator, proto, given, expected)


def _varying(model: onnx.ModelProto, inputs: Sequence[Any]) -> int:
    """The place of the input that stays one: the first of real numbers, or the first."""
    for place, given in enumerate(inputs):
        if _is_numeric(given) and given.dtype.name in REAL and given.ndim:
            return place
    return 0


def _with_constants(model: onnx.ModelProto, inputs: Sequence[Any], place: int) -> onnx.ModelProto:
    """The model with all inputs but one as initialisers."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model)
    kept = []
    for number, value in enumerate(model.graph.input):
        fixed = number != place and number < len(inputs) and isinstance(inputs[number], np.ndarray | np.generic)
        if fixed and value.type.HasField("tensor_type"):
            kind = value.type.tensor_type.elem_type
            array = np.asarray(inputs[number])
            known = helper.tensor_dtype_to_np_dtype(kind)
            proto.graph.initializer.append(numpy_helper.from_array(array.astype(known), value.name))
        else:
            kept.append(value)
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    return proto


def verdict_of(model: OperatorModel, folder: Path) -> Verdict:
    """What becomes of a model of one operator."""
    return judged(model.name, model.operator, lambda: _difference(model, folder))


def judged(name: str, operator: str, differs: Callable[[], str]) -> Verdict:
    """The verdict on a model: `differs` imports it, executes it, and says in what results differ, "" where they do not."""
    try:
        difference = differs()
    except InputError as error:
        return Verdict(name, operator, "refused", str(error))
    except Exception as error:  # whatever it is, the import should have said a sentence
        return Verdict(name, operator, "crashed", f"{type(error).__name__}: {error}")
    return Verdict(name, operator, "wrong" if difference else "equal", difference)


def _difference(model: OperatorModel, folder: Path) -> str:
    path, data = folder / "model.onnx", folder / "data.npz"
    onnx.save(model.proto, str(path))
    features, expected = _asked(model)
    np.savez(data, X=features)
    bundle = import_bundle(path, data, returns=Returns.VALUE)
    scaled = features if bundle.scaling is None else bundle.scaling.apply(features)
    found = run_float(bundle.program, bundle.parameters, scaled).outputs
    if found.shape != expected.shape:
        return f"{found.shape[1]} numbers, expected {expected.shape[1]}"
    coarse = min(np.asarray(model.expected).dtype.itemsize, model.given.dtype.itemsize) < 4
    tolerance = HALF_TOLERANCE if coarse else TOLERANCE
    near = np.isclose(found, expected, rtol=tolerance, atol=tolerance)
    return "" if near.all() else f"{found[~near][0]:g}, expected {expected[~near][0]:g}"


def _asked(model: OperatorModel) -> tuple[RealArray, RealArray]:
    """Inputs [samples, elements] and what the model returns for each of them. An example that onnxruntime says the same of, as far as
    its digits go, is taken with all of onnxruntime's."""
    if not _is_numeric(model.given) or not _is_numeric(model.expected):
        return np.zeros((1, max(1, model.given.size))), np.zeros((1, 1))  # texts, sequences: nothing to compare
    rows = [np.asarray(model.given, dtype=np.float64).reshape(-1)]
    results = [np.asarray(model.expected, dtype=np.float64).reshape(-1)]
    random = np.random.default_rng(0)
    others = [random.normal(0, scale, model.given.shape) for scale in np.linspace(0.5, 2.0, OTHER_INPUTS)]
    try:
        session = onnxruntime.InferenceSession(model.proto.SerializeToString(), _quiet())
        name = session.get_inputs()[0].name
        for array in [model.given, *others]:
            result = np.asarray(session.run(None, {name: array.astype(model.given.dtype)})[0], dtype=np.float64)
            if result.size != results[0].size or not np.isfinite(result).all():
                continue
            if array is model.given:
                agrees = np.allclose(result.reshape(-1), results[0], rtol=EXAMPLE_DIGITS, atol=1e-7)
                results = [result.reshape(-1)] if agrees else results
                continue
            rows.append(np.asarray(array.astype(model.given.dtype), dtype=np.float64).reshape(-1))
            results.append(result.reshape(-1))
    except Exception:  # an operator that onnxruntime does not have: the example remains
        pass
    return np.stack(rows), np.stack(results)


def _is_numeric(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) and (value.dtype.kind in "fiub" or value.dtype.name in REAL)


def _quiet() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return options


def counts_table(title: str, verdicts: Sequence[Verdict]) -> str:
    """How many models there are of each verdict, and of how many operators."""
    models = Counter(one.verdict for one in verdicts)
    operators = {verdict: {one.operator for one in verdicts if one.verdict == verdict} for verdict in VERDICTS}
    lines = [f"| {title} | models | kinds |", "|---|---|---|"]
    lines += [f"| {verdict} | {models[verdict]} | {len(operators[verdict])} |" for verdict in VERDICTS]
    return "\n".join([*lines, f"| all | {len(verdicts)} | {len(set().union(*operators.values()))} |"])


def main() -> None:
    """Print the tables, and every model that is wrong or crashed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("nodes", "estimators"))
    parser.add_argument("--match", default="", help="only models whose name has this in it")
    parser.add_argument(
        "--sentences", action="store_true", help="print what is said of every model that is refused, too"
    )
    given = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for kind, title in (("nodes", "single-operator models of onnx"), ("estimators", "estimators by skl2onnx")):
            if given.only not in (None, kind):
                continue
            if kind == "nodes":
                found = [verdict_of(model, Path(folder)) for model in operator_models(given.match)]
            else:
                found = [judged(*one) for one in estimator_verdicts(given.match, Path(folder))]
            print(counts_table(title, found), flush=True)
            shown = VERDICTS[1:] if given.sentences else VERDICTS[2:]
            for one in sorted(found, key=lambda one: (VERDICTS.index(one.verdict), one.operator, one.name)):
                if one.verdict in shown:
                    print(f"{one.verdict}: {one.operator}: {one.name}: {one.sentence}")
            failed |= any(one.verdict in VERDICTS[2:] for one in found)
    sys.exit(failed)


if __name__ == "__main__":
    main()
