"""How wide what stages read and send is: bits of tensors, operands of crossbars, partial sums."""

from __future__ import annotations

from itertools import chain

from kilotune.codegen.cm.partition import Partition
from kilotune.codegen.cm.pipeline import ACTIVATION_BITS
from kilotune.codegen.onnx.bounds import bits_of, partial_sum_bits
from kilotune.codegen.onnx.converters import ColumnBlock, ColumnConverter, digit_count
from kilotune.codegen.onnx.graph import ConvNode, Graph

UNKNOWN_ACTIVATION = (-127, 127)


class ElementBits:
    """Widths in a network whose integers lie in known bounds, or else have ACTIVATION_BITS each."""

    def __init__(self, graph: Graph) -> None:
        self._bounds = graph.bounds
        self._found: dict[str, int] = {}

    def of(self, tensor: str) -> int:
        """Bits of an element of a tensor; asked for again and again."""
        found = self._found.get(tensor)
        if found is None:
            found = ACTIVATION_BITS if self._bounds is None else bits_of(self._bounds[tensor])
            self._found[tensor] = found
        return found

    def operand(self, partition: Partition) -> int:
        """Bits of an operand of the crossbar."""
        return ACTIVATION_BITS if partition.head is None else self.of(partition.head.inputs[0])

    def packet(self, partition: Partition, block: ColumnBlock | None, row: int, adds_up: bool, width: int) -> list[int]:
        """Bits of every element of a packet of so many channels that a row block sends: results, or partial sums, of all blocks to this one
        where it `adds_up` those before it."""
        head = partition.head
        if block is None or row == block.row_blocks - 1 or not isinstance(head, ConvNode):
            return list(chain.from_iterable([self.of(name)] * width for name in partition.exports))
        first = 0 if adds_up else row
        return [self._sums(head, block.row_bounds[row + 1] - block.row_bounds[first], row + 1 - first)] * width

    def _sums(self, head: ConvNode, rows: int, cores: int) -> int:
        """Bits of a partial sum of so many rows on so many cores; what converters gave is sent in their steps."""
        operand = UNKNOWN_ACTIVATION if self._bounds is None else self._bounds[head.inputs[0]]
        exact = partial_sum_bits(operand, head.weight_bits, rows)
        converter = head.converter
        if converter is None:
            return exact
        magnitude = max(abs(operand[0]), abs(operand[1])).bit_length()
        steps = cores * converter.largest * _places(head.weight_bits, magnitude, converter)
        return min(steps.bit_length() + 1, exact if not converter.right else max(1, exact - converter.right) + 1)


def _places(weight_bits: int, magnitude_bits: int, converter: ColumnConverter) -> int:
    """The sum of the weights of all slices' and pieces' places."""
    found = 1
    for bits, step in ((weight_bits - 1, converter.cell_bits), (magnitude_bits, converter.piece_bits)):
        found *= sum(1 << (k * step) for k in range(digit_count(bits, step)))
    return found
