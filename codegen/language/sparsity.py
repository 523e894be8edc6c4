"""Which parameters are stored as non-zero values and their positions (SeeDot Section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kilotune.codegen.ir import MatMul, Operation, Program, Role, Variable, View, operations, whole


def sparse_parameters(program: Program, values: Mapping[str, np.ndarray]) -> frozenset[str]:
    """Names of the parameters worth storing sparsely.

    Such a parameter is read by `|*|` with a vector and by nothing else, and non-zeros with one list of column
    numbers per row, each closed by a zero, are fewer bytes at 8 bits than the dense matrix.
    """
    return frozenset(
        variable.name
        for variable in program.variables
        if variable.role is Role.PARAMETER
        and variable.name in values
        and _only_in_sparse_products(program, variable)
        and _is_smaller_sparse(values[variable.name])
    )


def _only_in_sparse_products(program: Program, variable: Variable) -> bool:
    readers = [o for o in operations(program.body) if any(_reads(view, variable) for view in o.operands)]
    return (
        bool(readers)
        and program.result.variable != variable.name
        and all(_is_sparse_product(o, variable) for o in readers)
    )


def _reads(operand: object, variable: Variable) -> bool:
    return isinstance(operand, View) and operand.variable == variable.name


def _is_sparse_product(operation: Operation, variable: Variable) -> bool:
    return (
        isinstance(operation, MatMul)
        and operation.sparse
        and operation.a == whole(variable)
        and operation.b.variable != variable.name
        and operation.b.shape[1] == 1
    )


def _is_smaller_sparse(matrix: np.ndarray) -> bool:
    rows = matrix.shape[0]
    return 2 * int(np.count_nonzero(matrix)) + int(rows) < int(matrix.size)
