"""A model bundle: a folder with a program, its trained parameters and its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kilotune.codegen import ir
from kilotune.codegen.array_files import RealArray, array_names, check_finite, find_array_file, read_array
from kilotune.codegen.class_names import ClassName
from kilotune.codegen.counts import counted
from kilotune.codegen.dataset import Dataset, load_dataset
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.feature_order import FeatureOrder
from kilotune.codegen.feature_scaling import FeatureScaling
from kilotune.codegen.file_kinds import PROGRAM_FILE
from kilotune.codegen.language.elaborate import INPUT_NAME, elaborate
from kilotune.codegen.language.parser import parse
from kilotune.codegen.language.values import describe_shape
from kilotune.codegen.quantisation_grid import QuantisationGrid
from kilotune.codegen.text_files import read_text_file

PARAMETERS_FILE = "params.npz"


@dataclass(frozen=True, eq=False)
class Bundle:
    """A program with everything that it needs to run.

    `parameters` have the declared shapes. `train` is None only for a program without input. `class_count` is None
    for a program that returns real numbers. `scaling`: what was done to the features of `train` and `test`, and has to be done to every
    other sample before it is quantised; None where the program takes them as they are.
    `class_names`: what the classes are called, where that is not their number. `result_grid`: where the integers stand that a quantised
    program returns. `order`: which features of the model the program's are, where they stand in another order.
    """

    name: str
    program: ir.Program
    parameters: Mapping[str, RealArray]
    train: Dataset | None
    test: Dataset | None
    class_count: int | None
    scaling: FeatureScaling | QuantisationGrid | None = None
    class_names: tuple[ClassName, ...] = ()
    result_grid: QuantisationGrid | None = None
    order: FeatureOrder | None = None


def load_bundle(path: Path) -> Bundle:
    """Load and check a model bundle.

    The folder holds `model.sd`; for each parameter W declared there `W.npy` (or `.npz`, `.csv`, `.txt`, or the array W of
    `params.npz`); `train` and, optionally, `test` with the same suffixes. `X` is the input, unless the folder has a
    parameter file for it.
    Raises InputError for the first thing that is missing or wrong.
    """
    folder = Path(path)
    source = _read_program(folder)
    tree = parse(source, str(folder / PROGRAM_FILE))
    name = folder.resolve().name
    fixed_input = _find_parameter(folder, INPUT_NAME)
    supplied = {} if fixed_input is None else {INPUT_NAME: read_array(*fixed_input)}
    program = elaborate(tree, name, supplied)
    parameters = {
        variable.name: _load_parameter(folder, variable)
        for variable in program.variables
        if variable.role is ir.Role.PARAMETER
    }
    program = elaborate(tree, name, parameters)  # again: the values decide what is stored sparsely
    class_count, binary = _classes(program)
    if class_count is not None and program.input is None:
        raise InputError(str(folder / PROGRAM_FILE), expected=f"an input {INPUT_NAME} to classify", found="none")
    return Bundle(
        name,
        program,
        parameters,
        _load_data(folder, "train", program, class_count, binary, required=True),
        _load_data(folder, "test", program, class_count, binary, required=False),
        class_count,
    )


def _read_program(folder: Path) -> str:
    if not folder.is_dir():
        raise InputError(str(folder), expected=f"a folder with {PROGRAM_FILE}", found="no folder")
    path = folder / PROGRAM_FILE
    if not path.is_file():
        raise InputError(str(path), expected="a program in the SeeDot language", found="no such file")
    return read_text_file(path, "a text file")


def _find_parameter(folder: Path, name: str) -> tuple[Path, str | None] | None:
    """The file of a parameter, and which of its arrays (None: the only one)."""
    own = find_array_file(folder, name)
    if own is not None:
        return own, None
    shared = folder / PARAMETERS_FILE
    if shared.is_file() and name in array_names(shared):
        return shared, name
    return None


def _load_parameter(folder: Path, variable: ir.Variable) -> RealArray:
    subject = f"parameter {variable.name}"
    source = _find_parameter(folder, variable.name)
    if source is None:
        expected = f"a file {variable.name}.npy (or .npz, .csv, .txt, or in {PARAMETERS_FILE}) beside {PROGRAM_FILE}"
        raise InputError.at(variable.location, subject, expected, "none")
    path, key = source
    array = read_array(path, key)
    declared = describe_shape(variable.shape)
    if not _same_up_to_ones(array.shape, variable.shape):
        place = f"declared at {variable.location}"
        raise InputError(
            str(path), subject=f"{subject}, {place}", expected=f"shape {declared}", found=describe_shape(array.shape)
        )
    array = array.reshape(variable.shape)
    check_finite(array, path)
    return array


def _same_up_to_ones(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether two shapes differ at most in axes of extent 1, so that a reshape cannot be wrong."""
    return [extent for extent in a if extent != 1] == [extent for extent in b if extent != 1]


def _classes(program: ir.Program) -> tuple[int | None, bool]:
    """(number of classes, whether the label is a sign); (None, False) for a program that returns real numbers."""
    if program.result_kind is ir.ResultKind.REAL:
        return None, False
    for operation in ir.operations(program.body):
        if operation.out.variable == program.result.variable:
            return (operation.a.size, False) if isinstance(operation, ir.ArgMax) else (2, True)
    raise AssertionError("a label is always computed by argmax or sgn")


def _load_data(
    folder: Path, stem: str, program: ir.Program, class_count: int | None, binary: bool, *, required: bool
) -> Dataset | None:
    if program.input is None:
        return None  # constants only: every sample would give the same
    path = find_array_file(folder, stem)
    if path is not None:
        return load_dataset(path, program.input.size, class_count, binary=binary)
    if not required:
        return None
    expected = f"{stem}.npy (or .npz, .csv, .txt) with a label and {counted(program.input.size, 'feature')} a row"
    raise InputError(str(folder), expected=expected, found="no such file")
