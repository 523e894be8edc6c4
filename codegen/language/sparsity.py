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
    variables = {variable.name: variable for variable in program.variables}
    others = {program.result.variable}
    read = set[str]()
    for operation in operations(program.body):
        for view in operation.operands:
            if isinstance(view, View):
                (read if _is_sparse_product(operation, variables[view.variable]) else others).add(view.variable)
    return frozenset(
        variable.name
        for variable in program.variables
        if variable.role is Role.PARAMETER
        and variable.name in values
        and variable.name in read - others
        and _is_smaller_sparse(values[variable.name])
    )


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
