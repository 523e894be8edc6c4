"""TensorFlow Lite's WHILE, as converters write recurrent layers: a loop that counts the places of a sequence becomes a Scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from kilotune.codegen.tflite.model_file import TfliteModel, TfliteOperator
from kilotune.codegen.trained.model import TrainedNode
from kilotune.codegen.trained.scan import BODY, ScanBody, TakenPlace
from kilotune.codegen.trained.tflite_translation import Translation, option

NO_COUNT = "expected a loop over the places of a sequence (a condition that a counter from 0 is less than a constant), found another one"


@dataclass(frozen=True, eq=False)
class WhileBody:
    """The body of a WHILE, read as one step: `counters` are inputs that count the steps, `constant` those that are handed on as they are,
    `collections` those that gather one place of a result a step (by the number of the tensor that has the place), `states` the others; all
    by their position. `taken`: tensors that are one place of an input, with the position of that input."""

    graph: TfliteModel
    makers: Mapping[int, TfliteOperator]
    counters: frozenset[int]
    constant: frozenset[int]
    collections: Mapping[int, int]
    states: tuple[int, ...]
    taken: dict[int, int] = field(default_factory=dict)


def while_loop(
    translation: Translation,
    operator: TfliteOperator,
    body_of: Callable[[int, str], Translation],
    translate: Callable[[Translation, TfliteOperator], None],
) -> None:
    """A WHILE as a Scan. `body_of` begins the translation of a subgraph, whose names begin with a word; `translate` adds an operator to
    one. ValueError "expected X, found Y" for loops that do not count the places of a sequence."""
    condition = translation.subgraphs[option(operator, "CondSubgraphIndex", -1)]
    inside = body_of(option(operator, "BodySubgraphIndex", -1), f"{translation.name(operator.writes[0])}/")
    body, count = _read_body(translation, operator, inside, condition)
    wanted = [body.graph.outputs[k] for k in body.states] + list(body.collections.values())
    for one in _operators(body, wanted):
        translate(inside, one)
    refused = [node.place for node in inside.nodes if node.refusal]
    if refused:
        raise ValueError(f"expected a body of operators that are supported, found {', '.join(refused)}")
    sequences = [translation.name(operator.reads[k]) for k in body.taken.values()]
    first = [translation.name(operator.reads[k]) for k in body.states]
    outside = {name for node in inside.nodes for name in node.inputs if name in inside.constants}
    translation.constants.update(inside.constants)
    step = ScanBody(
        tuple(inside.nodes),
        tuple(inside.name(body.graph.inputs[k]) for k in body.states),
        tuple(inside.name(body.graph.outputs[k]) for k in body.states),
        tuple(TakenPlace(inside.name(number)) for number in body.taken),
        tuple(inside.name(number) for number in body.collections.values()),
        count,
    )
    place = translation.place_of(operator)
    all_places = {k: f"{translation.name(operator.writes[k])}_places" for k in body.collections}
    writes = (*(translation.name(operator.writes[k]) for k in body.states), *all_places.values())
    reads = (*first, *sequences, *sorted(outside))
    translation.nodes.append(TrainedNode("Scan", reads, writes, place, {BODY: step}))
    for k, name in all_places.items():
        wanted_shape = np.array(translation.shape(operator.writes[k]), dtype=np.int64)
        shape = translation.constant_of(operator, f"shape{k}", wanted_shape)
        translation.add(operator, "Reshape", [name, shape], translation.name(operator.writes[k]))
    for k in body.constant:
        translation.add(
            operator, "Identity", [translation.name(operator.reads[k])], translation.name(operator.writes[k])
        )


def _read_body(
    translation: Translation, operator: TfliteOperator, inside: Translation, condition: TfliteModel
) -> tuple[WhileBody, int]:
    """The body, and how many steps there are."""
    graph = inside.model
    makers = {number: one for one in graph.operators for number in one.writes}
    if not len(graph.inputs) == len(graph.outputs) == len(operator.reads) == len(operator.writes):
        raise ValueError(NO_COUNT)
    pairs = list(zip(graph.inputs, graph.outputs, strict=True))
    constant = frozenset(k for k, (before, behind) in enumerate(pairs) if before == behind)
    counters = frozenset(k for k, pair in enumerate(pairs) if _counts(inside, makers, *pair))
    for k in counters:
        if np.any(translation.constant(operator.reads[k], "first number of a counter")):
            raise ValueError(NO_COUNT)
    limits = dict(_limits(condition))
    if not limits or not counters.issuperset(limits):
        raise ValueError(NO_COUNT)
    counting = {graph.inputs[k] for k in counters}
    collections: dict[int, int] = {}
    for k, (before, behind) in enumerate(pairs):
        value = _collected(inside, makers, counting, before, behind) if k not in constant | counters else None
        if value is not None:
            collections[k] = value
    states = tuple(k for k in range(len(pairs)) if k not in constant | counters | set(collections))
    body = WhileBody(graph, makers, counters, constant, collections, states)
    for one in graph.operators:
        where = [k for k in constant if one.reads[:1] == (graph.inputs[k],)]
        if one.kind == "GATHER" and where and one.reads[1] in counting and option(one, "Axis", 0) == 0:
            body.taken[one.writes[0]] = where[0]
    return body, min(limits.values())


def _counts(inside: Translation, makers: Mapping[int, TfliteOperator], before: int, behind: int) -> bool:
    """Whether an input is handed on as one more than it was."""
    maker = makers.get(behind)
    if maker is None or maker.kind != "ADD" or before not in maker.reads:
        return False
    others = [inside.name(number) for number in maker.reads if number != before]
    return len(others) == 1 and others[0] in inside.constants and inside.constants[others[0]].tolist() in (1, [1])


def _limits(condition: TfliteModel) -> Iterator[tuple[int, int]]:
    """The inputs of a condition, by their position, that are to be less than a constant, and the constant. ValueError for others."""
    makers = {number: one for one in condition.operators for number in one.writes}
    open_ones = list(condition.outputs)
    while open_ones:
        maker = makers.get(open_ones.pop())
        if maker is not None and maker.kind == "LOGICAL_AND":
            open_ones += maker.reads
            continue
        data = None if maker is None or len(maker.reads) != 2 else condition.tensors[maker.reads[1]].data
        if (
            maker is None
            or maker.kind != "LESS"
            or maker.reads[0] not in condition.inputs
            or data is None
            or data.size != 4
        ):
            raise ValueError(NO_COUNT)
        yield condition.inputs.index(maker.reads[0]), int(data.view("<i4")[0])


def _collected(
    inside: Translation, makers: Mapping[int, TfliteOperator], counting: set[int], before: int, behind: int
) -> int | None:
    """The tensor that takes the counter's place in an input: what was before it, the tensor, and what was behind it put together."""
    maker = makers.get(behind)
    if maker is None or maker.kind != "CONCATENATION" or len(maker.reads) != 3 or option(maker, "Axis", 0) != 0:
        return None
    lower, upper = (makers.get(number) for number in (maker.reads[0], maker.reads[2]))
    if lower is None or upper is None or any(one.kind != "SLICE" or one.reads[0] != before for one in (lower, upper)):
        return None
    to_the_counter = _leaves(inside, makers, lower.reads[2]) & counting
    from_the_counter = _leaves(inside, makers, upper.reads[1]) & counting
    return maker.reads[1] if to_the_counter and from_the_counter else None


def _leaves(inside: Translation, makers: Mapping[int, TfliteOperator], number: int) -> set[int]:
    """The inputs of a body that a tensor of places is made of."""
    found, open_ones = set[int](), [number]
    while open_ones:
        one = open_ones.pop()
        if one in makers:
            open_ones += makers[one].reads
        else:
            found.add(one)
    return found


def _operators(body: WhileBody, wanted: list[int]) -> list[TfliteOperator]:
    """The operators that tensors hang on, in order, without those that only take places of a sequence."""
    needed, open_ones = set[int](), list(wanted)
    while open_ones:
        number = open_ones.pop()
        if number in body.taken or number in needed or number not in body.makers:
            continue
        needed.add(number)
        open_ones += body.makers[number].reads
    return [one for one in body.graph.operators if needed.intersection(one.writes)]
