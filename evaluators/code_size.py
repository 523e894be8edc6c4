"""What the code of a program takes in flash besides parameters, tables and what unpacks them: an estimate from programs that were linked.

Code follows the widths of what is computed: a variable of 16 bits brings longer loads, products and divisions, and functions for them. How
much hangs on the program and its neighbours, and no count of what is emitted says it for programs that were not linked. So
some candidates of the very program are, and a plane is laid through them: so many bytes for every wide variable, which is what most of them
share, what each differs from that, and what each further kind of sum, product, division or unpacking takes, for which there is a function
or a loop of its own. Those kinds tell little of candidates unlike the ones that were linked, and much of such as are near them: where a
limit is, some that short searches find near it are linked as well, and weigh more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.evaluators.cost_features import FEATURES, FREE, Terms

OWN_RIDGE = 10.0
"""What a variable's distance from the others weighs, in linked programs. Chosen with the two below on three generated perceptrons, of whose
candidates near a limit those that were not fitted are 10 to 20 bytes off (root mean square)."""

KIND_RIDGE = 3.0
"""What the bytes of a kind weigh, in linked programs."""

FAR_WEIGHT = 0.3
"""What a candidate weighs that was drawn, beside one that a search found near the limit."""

MOST_BYTES = 1 << 31
"""More no processor of these has: a stored estimate beyond it is damaged."""

_SUMS = ("dot", "straight")


def _of(family: str, axis: int, width: str) -> Callable[[Sequence[str]], bool]:
    return lambda words: words[0] == family and words[axis] == width


def _summed_in(width: str) -> Callable[[Sequence[str]], bool]:
    return lambda words: (words[0] in _SUMS and words[5] == width) or (words[0] == "mac" and words[3] == width)


_KINDS: Mapping[str, Callable[[Sequence[str]], bool]] = MappingProxyType(
    {
        **{f"division{width}": _of("down", 2, width) for width in ("8", "16", "32")},
        **{f"called division{width}": _of("called", 2, width) for width in ("16", "32")},
        **{f"sum{width}": _summed_in(width) for width in ("16", "32")},
        **{f"product{width}": _of("product", 3, width) for width in ("16", "32")},
        **{f"step{width}": _of("apply", 2, width) for width in ("16", "32")},
        "shift up": lambda words: words[0] == "up",
        "unpacking": lambda words: words[0] == "unpack",
        "lookup": lambda words: words[0] == "lookup",
    }
)
"""Kinds of code, by which features of the cost model belong to each."""

KINDS: tuple[str, ...] = tuple(_KINDS)
"""Their names, in their order."""


_MEMBERS: tuple[tuple[int, ...], ...] = tuple(
    tuple(number for number, feature in enumerate(FEATURES) if belongs(feature.split(".")))
    for belongs in _KINDS.values()
)
"""The numbers of the features of each kind."""


def kinds_of(terms: Terms) -> IntArray:
    """How many different features of each kind candidates have [candidates, kinds]: each is a loop or a function of another sort."""
    present = np.zeros((len(terms.numbers), len(FEATURES)), dtype=np.bool_)
    np.put_along_axis(present, terms.numbers, True, axis=1)
    present[:, FREE] = False
    return np.stack([present[:, list(members)].sum(axis=1) for members in _MEMBERS], axis=1)


@dataclass(frozen=True)
class CodeSize:
    """Bytes of code: `base`, for each variable of more than 8 bits what `wide` says by its name, and for each feature of a kind what
    `kinds` says by its name. `error`: how far the candidates near the limit are off that were linked, each by what the others say (root
    mean square); 0 where there were none."""

    base: float
    wide: Mapping[str, float]
    kinds: Mapping[str, float] = field(default_factory=dict)
    error: float = 0.0

    def code_bytes(self, program: ir.Program, bits: IntArray, kinds: IntArray) -> IntArray:
        """Bytes [candidates] of candidates of a program with `bits` [candidates, variables] and so many features of each of `KINDS`
        [candidates, kinds]; whole ones, never below 0."""
        each = np.array([self.wide.get(variable.name, 0.0) for variable in program.variables])
        of_kinds = kinds @ np.array([self.kinds.get(name, 0.0) for name in KINDS])
        code: IntArray = np.maximum(np.rint(self.base + (bits > 8) @ each + of_kinds), 0.0).astype(np.int64)
        return code

    def corrected_by(self, names: Sequence[str], linked: LinkedCode) -> CodeSize:
        """That of a similar program, some of whose candidates were linked and whose variables are `names`: what is fitted to what these
        take beyond this estimate is added to it, so that few of them do. As it was where none were linked."""
        if not len(linked.code):
            return self
        each, of_kinds = [self.wide.get(name, 0.0) for name in names], [self.kinds.get(name, 0.0) for name in KINDS]
        off = linked.code - (self.base + linked.wide @ np.array(each) + linked.kinds @ np.array(of_kinds))
        rest = fitted_code_size(names, replace(linked, code=off))
        return CodeSize(
            round(self.base + rest.base, 1),
            {name: round(known + rest.wide[name], 1) for name, known in zip(names, each, strict=True)},
            {name: round(known + rest.kinds.get(name, 0.0), 1) for name, known in zip(KINDS, of_kinds, strict=True)},
            rest.error,
        )


def stored_code_size(content: object) -> CodeSize | None:
    """From `dataclasses.asdict` of one that was stored as JSON; None for anything else."""
    names = {"base", "wide", "kinds", "error"}
    if not isinstance(content, dict) or set(content) != names:
        return None
    each = [content["base"], content["error"]]
    for name in ("wide", "kinds"):
        if not isinstance(content[name], dict):
            return None
        each += content[name].values()
    known = all(isinstance(value, int | float) and abs(value) <= MOST_BYTES for value in each)  # no NaN is
    known = known and content["error"] >= 0
    return CodeSize(**content) if known else None


@dataclass(frozen=True)
class LinkedCode:
    """Candidates that were linked: `wide` [candidates, variables] of 0 and 1, which of some variables have more than 8 bits; `kinds`
    [candidates, kinds], features of each kind; `code` [candidates], bytes of it; `near` [candidates], whether a search found them near the
    limit."""

    wide: IntArray
    kinds: IntArray
    code: IntArray
    near: npt.NDArray[np.bool_]

    def __add__(self, other: LinkedCode) -> LinkedCode:
        return LinkedCode(
            np.concatenate([self.wide, other.wide]),
            np.concatenate([self.kinds, other.kinds]),
            np.concatenate([self.code, other.code]),
            np.concatenate([self.near, other.near]),
        )


def fitted_code_size(names: Sequence[str], linked: LinkedCode) -> CodeSize:
    """From candidates that were linked, whose variables are `names`. Ridge regression; what all variables have in common is not held back.
    Without candidates near a limit kinds are left out, since they mislead then."""
    heard = linked.kinds if linked.near.any() else linked.kinds[:, :0]
    ones = np.ones((len(linked.code), 1))
    design = np.hstack([ones, linked.wide.sum(axis=1, keepdims=True), linked.wide, heard]).astype(np.float64)
    penalty = np.diag([1e-6, 1e-6, *[OWN_RIDGE] * len(names), *[KIND_RIDGE] * heard.shape[1]])
    weights = np.where(linked.near, 1.0, FAR_WEIGHT) if linked.near.any() else ones[:, 0]
    squares = (design.T * weights) @ design + penalty
    code = linked.code.astype(np.float64)
    found = np.linalg.solve(squares, (design.T * weights) @ code)
    leverage = weights * np.einsum("ij,ji->i", design, np.linalg.solve(squares, design.T))
    off = ((code - design @ found) / np.maximum(1.0 - leverage, 1e-9))[linked.near]
    whole = np.round(found, 1).tolist()
    own = whole[2 : 2 + len(names)]
    return CodeSize(
        whole[0],
        {name: round(whole[1] + more, 1) for name, more in zip(names, own, strict=True)},
        dict(zip(KINDS, whole[2 + len(names) :], strict=False)),
        round(float(np.sqrt(np.mean(off**2))), 1) if len(off) else 0.0,
    )
