"""Which axes of what an operation reads and writes run together: axes of one label have the same places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kilotune.codegen import ir


@dataclass(frozen=True)
class LabelledAxis:
    """An axis of a view, or one of two that it is made of: `axis` is its number in the view."""

    axis: int
    label: str
    extent: int
    stride: int


LabelledView = tuple[ir.View, tuple[LabelledAxis, ...]]


@dataclass(frozen=True)
class LabelledOperation:
    """What an operation writes, the first one, and reads; of `closed` labels every place is needed."""

    views: tuple[LabelledView, ...]
    closed: frozenset[str] = frozenset()


def labelled(operation: ir.Operation) -> LabelledOperation:
    """The labels of an operation's axes. All are closed where nothing is known of it."""
    out, read = operation.out, [one for one in operation.operands if isinstance(one, ir.View)]
    match operation:
        case ir.MatMul(a=a, b=b, completion=None):
            return LabelledOperation((_view(out, "pr"), _view(a, "pq"), _view(b, "qr")))
        case ir.Conv2D(a=a, b=b, completion=None, groups=groups):
            filters = _view(b, "gklio")
            channels = [_view(out, "nyxo"), _view(a, "nhwi")]
            if groups > 1:
                channels = [(view, _in_groups(axes, groups)) for view, axes in channels]
            return LabelledOperation((*channels, filters), frozenset("nyxhwkl"))
        case ir.MaxPool(a=a):
            return LabelledOperation((_view(out, "nyxc"), _view(a, "nhwc")), frozenset("nyxhw"))
        case ir.Pointwise() | ir.TableFunction() | ir.Binary() | ir.Select() | ir.Fill():
            if all(view.shape == out.shape or view.size == 1 for view in read):
                numbers = [str(axis) for axis in range(len(out.shape))]
                one = [f"one {axis}" for axis in range(max((len(view.shape) for view in read), default=0))]
                return LabelledOperation(
                    tuple(_view(view, numbers if view.shape == out.shape else one) for view in (out, *read))
                )
    views = [
        _view(view, [f"{number}.{axis}" for axis in range(len(view.shape))]) for number, view in enumerate((out, *read))
    ]
    return LabelledOperation(tuple(views), frozenset(axis.label for _, axes in views for axis in axes))


def _view(view: ir.View, labels: Iterable[str]) -> LabelledView:
    axes = zip(labels, view.shape, view.strides, strict=False)
    return view, tuple(LabelledAxis(number, *one) for number, one in enumerate(axes))


def _in_groups(axes: Sequence[LabelledAxis], groups: int) -> tuple[LabelledAxis, ...]:
    """Channels of a grouped convolution as groups and what each one has."""
    *places, channels = axes
    each = channels.extent // groups
    outer = LabelledAxis(channels.axis, "g", groups, channels.stride * each)
    return *places, outer, LabelledAxis(channels.axis, channels.label, each, channels.stride)
