"""From a file with tree ensembles (ai.onnx.ml) to a `Forest`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.array_files import RealArray
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.forest.model import Forest, Tree
from kilotune.codegen.onnx.obstacles import error_at
from kilotune.codegen.trained.classical import DOMAIN, TREES, classes_of
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.onnx_models import read_onnx

BEFORE = frozenset(("Identity", "Cast", f"{DOMAIN}Scaler"))
AFTER = frozenset(("Identity", "Cast", "Reshape", "Squeeze", "Flatten", f"{DOMAIN}ZipMap", f"{DOMAIN}Normalizer"))
"""What may stand before and behind one: it moves features without changing their order, and scores or labels not at all."""

DEEPEST = 200
"""Programs of nested conditions have a limit somewhere."""

MOST_NODES = 1 << 18
"""Beyond, no program fits anything this is for."""

MOST_RESULTS = 1 << 12
"""That a regressor may have: its file may state any number."""


def read_forest(path: Path) -> Forest:
    """The one ensemble of an ONNX file. InputError, one sentence, for a file without one or with other operators."""
    graph = read_onnx(path)
    found = [node for node in graph.nodes if node.kind in TREES]
    others = [node for node in graph.nodes if node.kind not in (*TREES, *BEFORE, *AFTER)]
    if len(found) != 1 or others:
        what = f"{len(found)} of them" if len(found) != 1 else f"{others[0].place}"
        expected = "one TreeEnsembleClassifier or TreeEnsembleRegressor, and around it only scalers, casts and names of classes"
        raise InputError(str(path), subject="operators", expected=expected, found=what)
    if len(graph.input_shape) != 2:
        shape = "x".join(map(str, graph.input_shape))
        raise InputError(str(path), subject="input", expected="features of a batch [1, features]", found=shape)
    node = found[0]
    try:
        forest = _forest(graph, node, path)
        for scaler in reversed(_way_in(graph, node)):
            forest = _behind_scaler(forest, scaler)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        known = str(error).startswith("expected ")
        said = ValueError(str(error) if known else "expected whole lists of nodes, found others")
        raise error_at(str(path), node.place, said) from None
    return forest


def _way_in(graph: TrainedGraph, node: TrainedNode) -> list[TrainedNode]:
    """The scalers between the features and the ensemble, first to last."""
    makers = {name: maker for maker in graph.nodes for name in maker.outputs}
    found, name = list[TrainedNode](), node.inputs[0]
    for _ in range(len(graph.nodes)):
        if name == graph.input_name:
            return found[::-1]
        maker = makers[name]
        if maker.kind not in BEFORE or (maker.kind == "Cast" and maker.integer("to", 1) != 1):
            raise ValueError(f"expected features, or scaled ones, found those of {maker.place}")
        found += [maker] if maker.kind == f"{DOMAIN}Scaler" else []
        name = maker.inputs[0]
    raise ValueError("expected features, found a circle")


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The lists of a file. `at`: the row of (tree, node)."""

    rows: MappingProxyType[tuple[int, int], int]
    trees: list[int]
    feature: NDArray[np.int64]
    value: NDArray[np.float32]
    mode: list[str]
    true: list[int]
    false: list[int]


def _numbers(node: TrainedNode, name: str) -> list[Any]:
    values = node.attributes.get(name, ())
    return list(values.reshape(-1).tolist() if hasattr(values, "reshape") else values)


def _nodes(node: TrainedNode) -> _Nodes:
    names = ("treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids")
    lists = {name: _numbers(node, f"nodes_{name}") for name in names}
    values = _numbers(node, "nodes_values") or _numbers(node, "nodes_values_as_tensor")
    lengths = {len(one) for one in (*lists.values(), values)}
    if len(lengths) != 1 or not values:
        raise ValueError(f"expected lists of nodes that are equally long, found {sorted(lengths)}")
    if len(values) > MOST_NODES:
        raise ValueError(f"expected at most {MOST_NODES} nodes, found {len(values)}")
    if not np.isfinite(np.asarray(values, dtype=np.float64)).all():
        raise ValueError("expected finite nodes_values, found NaN or infinity")
    rows = {pair: row for row, pair in enumerate(zip(lists["treeids"], lists["nodeids"], strict=True))}
    if len(rows) != len(values):
        raise ValueError("expected a node once in its tree, found one twice")
    modes = [mode.decode() if isinstance(mode, bytes) else str(mode) for mode in lists["modes"]]
    unknown = next((mode for mode in modes if mode not in MODES), None)
    if unknown is not None:
        raise ValueError(f"expected modes {', '.join(MODES)}, found {unknown}")
    return _Nodes(
        MappingProxyType(rows),
        list(dict.fromkeys(lists["treeids"])),
        np.asarray(lists["featureids"], dtype=np.int64),
        np.asarray(values, dtype=np.float32),
        modes,
        lists["truenodeids"],
        lists["falsenodeids"],
    )


MODES = ("LEAF", "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def _below(value: np.float32) -> np.float32:
    """The next smaller 32-bit float."""
    return np.float32(np.nextafter(np.float32(value), np.float32(-np.inf)))


class _Growing:
    """One tree, node by node, every comparison as "at most"."""

    def __init__(self, nodes: _Nodes, tree: int, rows: dict[tuple[int, int], RealArray], scores: int) -> None:
        self.nodes, self.tree, self.rows = nodes, tree, rows
        self.empty = np.zeros(scores)
        self.feature, self.threshold = list[int](), list[np.float32]()
        self.left, self.right, self.leaves = list[int](), list[int](), list[RealArray]()

    def add(self, number: int, depth: int, seen: frozenset[int]) -> int:
        """A node of the file with all below it; its number here."""
        row = self.nodes.rows.get((self.tree, number))
        if row is None or number in seen or depth > DEEPEST:
            found = "none" if row is None else "a circle" if number in seen else f"more than {DEEPEST} levels"
            raise ValueError(f"expected node {number} of tree {self.tree} once on a way from its root, found {found}")
        mode = self.nodes.mode[row]
        if mode == "LEAF":
            self.leaves.append(self.rows.get((self.tree, number), self.empty))
            return -len(self.leaves)
        below = seen | {number}
        yes, no = self.nodes.true[row], self.nodes.false[row]
        if mode in ("BRANCH_GTE", "BRANCH_GT", "BRANCH_NEQ"):
            yes, no = no, yes
        value = self.nodes.value[row]
        if mode in ("BRANCH_EQ", "BRANCH_NEQ"):  # at most the value, and not at most what is just below it
            inner = self._node(row, _below(value), no, yes, depth + 1, below)
            return self._put(row, value, inner, self.add(no, depth + 1, below))
        return self._node(row, _below(value) if mode in ("BRANCH_LT", "BRANCH_GTE") else value, yes, no, depth, below)

    def _node(self, row: int, value: np.float32, left: int, right: int, depth: int, seen: frozenset[int]) -> int:
        return self._put(row, value, self.add(left, depth + 1, seen), self.add(right, depth + 1, seen))

    def _put(self, row: int, value: np.float32, left: int, right: int) -> int:
        self.feature.append(int(self.nodes.feature[row]))
        self.threshold.append(value)
        self.left.append(left)
        self.right.append(right)
        if len(self.feature) > MOST_NODES:
            raise ValueError(f"expected at most {MOST_NODES} nodes, found more")
        return len(self.feature) - 1

    def grown(self, root: int) -> Tree:
        """What has been added."""
        whole = [np.asarray(numbers, dtype=np.int64) for numbers in (self.feature, self.left, self.right)]
        return Tree(
            whole[0], np.asarray(self.threshold, dtype=np.float32), whole[1], whole[2], np.array(self.leaves), root
        )


def _forest(graph: TrainedGraph, node: TrainedNode, path: Path) -> Forest:
    classifies = node.kind.endswith("Classifier")
    classes = classes_of(node, graph.constants)
    names = _numbers(node, "classlabels_int64s") or _numbers(node, "classlabels_strings")
    if classifies and len(names) < 2:  # scikit-learn and ONNX Runtime disagree about what the answer is then
        raise ValueError(f"expected at least two classes, found {len(names) or 'none'}")
    nodes = _nodes(node)
    if nodes.feature.size and not 0 <= nodes.feature.min() <= nodes.feature.max() < graph.input_shape[1]:
        raise ValueError(f"expected features 0 to {graph.input_shape[1] - 1}, found {int(nodes.feature.max())}")
    prefix = "class" if classifies else "target"
    ids = np.asarray(_numbers(node, f"{prefix}_ids"), dtype=np.int64)
    width = len(names) if classifies else node.integer("n_targets", 1)
    if width > MOST_RESULTS:
        raise ValueError(f"expected at most {MOST_RESULTS} n_targets, found {width}")
    if not ids.size or not 0 <= ids.min() <= ids.max() < width:
        raise ValueError(
            f"expected {prefix}_ids from 0 to {width - 1}, found {'none' if not ids.size else int(ids.max())}"
        )
    one = classifies and width == 2 and len(set(ids.tolist())) == 1
    rows, weights = _leaf_rows(node, prefix, np.zeros_like(ids) if one else ids, 1 if one else width)
    base = _base(node, 1 if one else width)
    if one:
        base = _by_sign(base, weights)
    elif classifies:
        where = list(zip(_numbers(node, "class_treeids"), _numbers(node, "class_nodeids"), strict=True))
        _check_scored(nodes, where, ids, weights, width)
    elif node.text("aggregate_function", "SUM") == "AVERAGE":
        rows = {place: row / len(nodes.trees) for place, row in rows.items()}
    trees = tuple(_tree(nodes, tree, rows, len(base)) for tree in nodes.trees)
    _check_endings(node, classifies)
    return Forest(str(path), path.stem, graph.input_shape[1], trees, base, width if classifies else None, classes)


def _check_endings(node: TrainedNode, classifies: bool) -> None:
    """ValueError for sums that are no sums, and for functions behind them that would change what is returned."""
    after, how = node.text("post_transform", "NONE"), node.text("aggregate_function", "SUM")
    known = ("NONE", "SOFTMAX", "LOGISTIC") if classifies else ("NONE",)
    if after not in known:
        raise ValueError(f"expected post_transform {', '.join(known)}, found {after}")
    if how not in ("SUM", "AVERAGE"):
        raise ValueError(f"expected aggregate_function SUM or AVERAGE, found {how}")


def _leaf_rows(
    node: TrainedNode, prefix: str, ids: NDArray[np.int64], width: int
) -> tuple[dict[tuple[int, int], RealArray], RealArray]:
    """What every leaf adds to the scores, by (tree, node), and all weights."""
    given = _numbers(node, f"{prefix}_weights") or _numbers(node, f"{prefix}_weights_as_tensor")
    weights = np.asarray(given, dtype=np.float32).astype(np.float64)
    where = list(zip(_numbers(node, f"{prefix}_treeids"), _numbers(node, f"{prefix}_nodeids"), strict=True))
    if not len(where) == len(weights) == len(ids):
        raise ValueError(f"expected {len(ids)} {prefix}_weights, found {len(weights)}")
    if not np.isfinite(weights).all():
        raise ValueError(f"expected finite {prefix}_weights, found NaN or infinity")
    rows: dict[tuple[int, int], RealArray] = {}
    for place, score, weight in zip(where, ids.tolist(), weights.tolist(), strict=True):
        rows.setdefault(place, np.zeros(width))[score] += weight
    return rows, weights


def _base(node: TrainedNode, width: int) -> RealArray:
    base = np.asarray(
        _numbers(node, "base_values") or _numbers(node, "base_values_as_tensor") or [0.0] * width, dtype=np.float64
    )
    if len(base) != width or not np.isfinite(base).all():
        raise ValueError(f"expected {width} finite base_values, found {len(base)}")
    return base


def _by_sign(base: RealArray, weights: RealArray) -> RealArray:
    """One score of two classes is a probability where no weight is negative, and the second class above one half; else it is above 0."""
    return base - 0.5 if (weights >= 0).all() else base


def _check_scored(
    nodes: _Nodes, where: list[tuple[int, int]], ids: NDArray[np.int64], weights: RealArray, width: int
) -> None:
    """Runtimes leave classes out of the comparison to which no leaf of a sample adds anything. Where scores may be negative, each class
    must therefore have a tree all of whose leaves add to it; ValueError otherwise."""
    if (weights >= 0).all():
        return
    leaves = {
        tree: sum(owner == tree and nodes.mode[row] == "LEAF" for (owner, _), row in nodes.rows.items())
        for tree in nodes.trees
    }
    added: dict[tuple[int, int], set[int]] = {}
    for (tree, number), score in zip(where, ids.tolist(), strict=True):
        added.setdefault((tree, score), set()).add(number)
    certain = {score for (tree, score), places in added.items() if len(places) == leaves.get(tree)}
    if len(certain) < width:
        missing = min(set(range(width)) - certain)
        raise ValueError(f"expected a tree whose leaves all add to class {missing}, found some without")


def _tree(nodes: _Nodes, tree: int, rows: dict[tuple[int, int], RealArray], scores: int) -> Tree:
    growing = _Growing(nodes, tree, rows, scores)
    numbers = [number for owner, number in nodes.rows if owner == tree]
    children = {child for (owner, _), row in nodes.rows.items() if owner == tree and nodes.mode[row] != "LEAF"
                for child in (nodes.true[row], nodes.false[row])}  # fmt: skip
    roots = [number for number in numbers if number not in children]
    if len(roots) != 1:
        raise ValueError(f"expected one root of tree {tree}, found {len(roots)}")
    return growing.grown(growing.add(roots[0], 0, frozenset()))


def _behind_scaler(forest: Forest, scaler: TrainedNode) -> Forest:
    """The forest of features that are not scaled yet: the largest 32-bit float whose scaled value is at most the old threshold."""
    offset, scale = (np.asarray(_numbers(scaler, name), dtype=np.float32) for name in ("offset", "scale"))
    offset, scale = (np.broadcast_to(values, forest.feature_count) for values in (offset, scale))
    if not (np.isfinite(offset).all() and np.isfinite(scale).all()) or not (scale > 0).all():
        raise ValueError("expected a Scaler with finite offsets and scales above 0, found others")
    return replace(forest, trees=tuple(_unscaled(tree, offset, scale) for tree in forest.trees))


def _unscaled(tree: Tree, offset: NDArray[np.float32], scale: NDArray[np.float32]) -> Tree:
    moved, factor = offset[tree.feature], scale[tree.feature]
    low = np.full(tree.feature.shape, -ordered(np.float32(np.finfo(np.float32).max)), dtype=np.int64)
    high = -low
    with np.errstate(over="ignore"):
        while (low < high).any():
            middle = (low + high + 1) // 2
            fits = (floats_of(middle) - moved) * factor <= tree.threshold
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return replace(tree, threshold=floats_of(low))


def ordered(values: Any) -> Any:
    """Whole numbers in the order of 32-bit floats: neighbours are neighbours."""
    bits = np.asarray(values, dtype=np.float32).view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def floats_of(numbers: NDArray[np.int64]) -> NDArray[np.float32]:
    """The 32-bit floats of `ordered` numbers."""
    bits = np.where(numbers < 0, (-numbers) | 0x80000000, numbers).astype(np.uint32)
    return np.asarray(bits.view(np.float32))
