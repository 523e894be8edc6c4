"""The typed intermediate representation: what a program over the Reals is, before any decision about integers.

A `Program` is a list of statements in static single storage: every operation writes the elements that one
`View` selects of one `Variable`. Reshaping, transposing, slicing and reversing move no data; they make another
view of the same variable. So each variable is real storage with one bitwidth, one scale and one live range,
and nothing else has any.

`views.py` is storage, `operation.py` what every operation says of itself, `operators.py`, `table_functions.py` and the modules of
`pointwise/` are the operations, `program.py` the whole.
"""

from kilotune.codegen.ir.numbers import Constants, Numbers
from kilotune.codegen.ir.operation import OperationBase, Order, Pointwise
from kilotune.codegen.ir.operators import (
    Add,
    ArgMax,
    Binary,
    Conv2D,
    Elementwise,
    Fill,
    Gathering,
    MatMul,
    MaxPool,
    Multiply,
    NormaliseL2,
    Operation,
    Product,
    RealElements,
    Select,
    Sign,
    Subtract,
    Windowed,
)
from kilotune.codegen.ir.pointwise import POINTWISE
from kilotune.codegen.ir.pointwise.copy import Copy
from kilotune.codegen.ir.pointwise.negate import Negate
from kilotune.codegen.ir.pointwise.relu import Relu
from kilotune.codegen.ir.pointwise.relu6 import Relu6
from kilotune.codegen.ir.program import (
    INTEGER_RESULTS,
    Loop,
    Periodic,
    Program,
    ResultKind,
    Statement,
    check_formats_open,
    executions,
    is_quantised,
    label_variables,
    operations,
    rounds,
    used_variables,
    with_views,
)
from kilotune.codegen.ir.quantised import EvenSum, Lookup, QuantisedElements, QuantisedProduct, QuantisedSum
from kilotune.codegen.ir.quantised_softmax import QuantisedSoftmax
from kilotune.codegen.ir.requantisation import (
    Averaging,
    Completion,
    EvenMultiplier,
    FixedMultiplier,
    Multiplier,
    Requantisation,
    check_room,
)
from kilotune.codegen.ir.table_functions import Exp, Sigmoid, TableFunction, Tanh
from kilotune.codegen.ir.views import (
    Affine,
    Literal,
    Location,
    Operand,
    Role,
    Variable,
    View,
    count_elements,
    row_major_strides,
    whole,
)

__all__ = (
    "INTEGER_RESULTS",
    "POINTWISE",
    "Add",
    "Affine",
    "ArgMax",
    "Averaging",
    "Binary",
    "Completion",
    "Constants",
    "Conv2D",
    "Copy",
    "Elementwise",
    "EvenMultiplier",
    "EvenSum",
    "Exp",
    "Fill",
    "FixedMultiplier",
    "Gathering",
    "Literal",
    "Location",
    "Lookup",
    "Loop",
    "MatMul",
    "MaxPool",
    "Multiplier",
    "Multiply",
    "Negate",
    "NormaliseL2",
    "Numbers",
    "Operand",
    "Operation",
    "OperationBase",
    "Order",
    "Periodic",
    "Pointwise",
    "Product",
    "Program",
    "QuantisedElements",
    "QuantisedProduct",
    "QuantisedSoftmax",
    "QuantisedSum",
    "RealElements",
    "Relu",
    "Relu6",
    "Requantisation",
    "ResultKind",
    "Role",
    "Select",
    "Sigmoid",
    "Sign",
    "Statement",
    "Subtract",
    "TableFunction",
    "Tanh",
    "Variable",
    "View",
    "Windowed",
    "check_formats_open",
    "check_room",
    "count_elements",
    "executions",
    "is_quantised",
    "label_variables",
    "operations",
    "rounds",
    "row_major_strides",
    "used_variables",
    "whole",
    "with_views",
)
