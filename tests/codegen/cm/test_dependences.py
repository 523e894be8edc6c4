"""S three times: by isl (Appendix A), by NumPy, and by its definition; and the state machines that run by it."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace

import islpy as isl
import numpy as np
import pytest

from kilotune.codegen.cm.access import AccessPattern, Rectangle, allowed, counts, is_read
from kilotune.codegen.cm.lcu import WrongStateMachineError, loop_nest, source_of, state_machine
from kilotune.codegen.cm.polyhedral import Dependences, dependences
from kilotune.codegen.onnx.graph import Window
from tests.codegen.cm.readings import allowed_by_definition, pixels_read, random_reading, released_by_definition

pytestmark = pytest.mark.slow

PAIRS = 240


def coordinates(point: object) -> tuple[int, int]:
    values = [point.get_coordinate_val(isl.dim_type.set, i) for i in range(2)]  # type: ignore[attr-defined]
    return int(values[0].to_python()), int(values[1].to_python())


def allowed_by_isl(reading: AccessPattern, found: Dependences) -> list[int]:
    """The relation S, point by point, as a staircase."""
    reader, limit = reading.reader, 0
    if not found.initial.is_empty():
        limit = reader.rank(*coordinates(found.initial.lexmax().sample_point())) + 1
    steps = [limit]
    for i in range(reading.writer.size):
        h, w = reading.writer.pixel(i)
        place = f"{w}, {h}" if reading.writer.by_columns else f"{h}, {w}"
        image = found.S.intersect_domain(isl.Set(f"{{ W[{place}] }}")).range()
        if not image.is_empty():
            limit = max(limit, reader.rank(*coordinates(image.sample_point())) + 1)
        steps.append(limit)
    return steps


def test_isl_numpy_and_the_definition_agree_on_random_pairs() -> None:
    rng = random.Random(7)
    padding_only = united = replicas = by_columns = 0
    for _ in range(PAIRS):
        reading = random_reading(rng)
        expected = allowed_by_definition(reading)
        needed, released, sent = counts(reading)
        assert allowed(needed, reading.writer.size).tolist() == expected
        assert allowed_by_isl(reading, dependences(reading, rng.randint(1, 4))) == expected
        assert released.tolist() == released_by_definition(reading)
        reads = pixels_read(reading)
        assert np.flatnonzero(sent).tolist() == sorted(set().union(*reads))
        padding_only += any(not read for read in reads) and any(reads)
        united += len(reading.windows) > 1
        by_columns += reading.writer.by_columns
        replicas += reading.writer.top > 0 or reading.reader.top > 0
    assert min(padding_only, united, replicas, by_columns) > 40, "the pairs must contain the hard cases"


def test_what_is_out_of_reach_is_seen_without_counting() -> None:
    """Of one window, on blocks of the reader and the writer anywhere, also of images that are spread apart."""
    rng = random.Random(9)
    found = [0, 0]
    for _ in range(20 * PAIRS):
        drawn = random_reading(rng)
        window = replace(drawn.windows[0], spread=(rng.randint(1, 3), rng.randint(1, 3)))
        (top, bottom), (left, right) = (sorted(rng.sample(range(12), 2)) for _ in range(2))
        reading = AccessPattern((window,), drawn.reader, Rectangle(top, bottom, left, right))
        read = bool(counts(reading)[2].any())
        assert is_read(reading) == read
        found[read] += 1
    assert min(found) > PAIRS


def test_generated_state_machines_agree_with_the_definition() -> None:
    rng = random.Random(8)
    for _ in range(PAIRS):
        reading = random_reading(rng)
        machine = state_machine(reading)
        first = machine.initial()
        limits = [0 if first is None else reading.reader.rank(*first) + 1]
        for i in range(reading.writer.size):
            reached = machine.written(*reading.writer.pixel(i))
            limits.append(limits[-1] if reached is None else max(limits[-1], reading.reader.rank(*reached) + 1))
        assert limits == allowed_by_definition(reading)
        kept = [machine.keeps(*reading.reader.pixel(j)) for j in range(reading.reader.size)]
        released = [reading.writer.size if pixel is None else reading.writer.rank(*pixel) for pixel in kept]
        assert released == released_by_definition(reading)


@pytest.mark.parametrize("size", [((5, 27), (2, 9)), ((14, 24), (5, 8))])
def test_isl_agrees_where_its_maximum_of_an_uncoalesced_relation_was_wrong(
    size: tuple[tuple[int, int], tuple[int, int]],
) -> None:
    """A transposed convolution, kernel 2 x 3 and strides 3 x 3: iterations behind its last pixel were never allowed."""
    (rows, columns), (high, wide) = size
    window = Window((2, 3), (1, 1), (1, 2, 1, 2), spread=(3, 3))
    reading = AccessPattern((window,), Rectangle(0, rows, 0, columns), Rectangle(0, high, 0, wide))
    expected = allowed_by_definition(reading)
    assert expected[-1] == rows * columns
    assert allowed_by_isl(reading, dependences(reading)) == expected
    assert state_machine(reading).written(high - 1, wide - 1) == (rows - 1, columns - 1)


@pytest.mark.parametrize(
    ("kernel", "stride", "pads", "dilation", "size"),
    [
        ((3, 4), (3, 2), (1, 1, 2, 2), (2, 1), (9, 8)),
        ((2, 2), (2, 2), (2, 2, 0, 1), (3, 1), (9, 6)),
        ((3, 3), (3, 1), (2, 2, 0, 1), (2, 3), (10, 13)),
    ],
)
def test_what_is_kept_of_dilated_windows_is_what_is_still_to_be_read(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pads: tuple[int, int, int, int],
    dilation: tuple[int, int],
    size: tuple[int, int],
) -> None:
    window = Window(kernel, stride, pads, dilation)
    high, wide = (
        (size[axis] + pads[axis] + pads[axis + 2] - dilation[axis] * (kernel[axis] - 1) - 1) // stride[axis] + 1
        for axis in (0, 1)
    )
    reading = AccessPattern((window,), Rectangle(0, high, 0, wide), Rectangle(0, size[0], 0, size[1]))
    machine = state_machine(reading)
    kept = [machine.keeps(*reading.reader.pixel(j)) for j in range(reading.reader.size)]
    released = [reading.writer.size if pixel is None else reading.writer.rank(*pixel) for pixel in kept]
    assert released == released_by_definition(reading)


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("rows", [slice(0, 2), slice(1, 2)])
def test_dilated_windows_of_an_image_taken_apart(
    monkeypatch: pytest.MonkeyPatch, by_columns: bool, rows: slice
) -> None:
    """Four windows, each of every second row and column: isl errs on their union as it is, in one of four such accesses. Tap by tap it
    does not, and no tables are needed."""

    def no_tables(reading: AccessPattern) -> str:
        raise AssertionError(f"tables of {reading}")

    monkeypatch.setattr("kilotune.codegen.cm.lcu.tabulated_source", no_tables)
    windows = tuple(Window((1, 2), (2, 2), (-a, 4 - b, a, 4 + b), (2, 4)) for b in (0, 1) for a in (0, 1))
    reading = AccessPattern(windows, Rectangle(rows.start, rows.stop, 0, 4), Rectangle(0, 4, 0, 4, by_columns))
    machine = state_machine(reading)
    kept = [machine.keeps(*reading.reader.pixel(j)) for j in range(reading.reader.size)]
    released = [reading.writer.size if pixel is None else reading.writer.rank(*pixel) for pixel in kept]
    assert released == released_by_definition(reading)


@pytest.mark.parametrize("by_columns", [False, True])
def test_tables_where_isl_errs_both_ways(monkeypatch: pytest.MonkeyPatch, by_columns: bool) -> None:
    def erring(reading: AccessPattern, *, by_tap: bool) -> Dependences:
        raise isl.Error(f"of {reading}, tap by tap: {by_tap}")

    windows = (Window((2, 3), (1, 2), (1, 1, 0, 2), (3, 1)), Window((1, 1), (2, 1), (0, 0, 0, 0)))
    reading = AccessPattern(windows, Rectangle(1, 4, 0, 5), Rectangle(0, 7, 1, 8, by_columns))
    relations = state_machine(reading)
    monkeypatch.setattr("kilotune.codegen.cm.lcu.dependences", erring)
    tables = state_machine(reading)
    assert tables.initial() == relations.initial()
    limits = [tables.written(*reading.writer.pixel(i)) for i in range(reading.writer.size)]
    assert any(limits)
    assert limits == [relations.written(*reading.writer.pixel(i)) for i in range(reading.writer.size)]
    assert [tables.keeps(*p) for p in map(reading.reader.pixel, range(reading.reader.size))] == [
        relations.keeps(*p) for p in map(reading.reader.pixel, range(reading.reader.size))
    ]


@pytest.mark.parametrize(("relation", "function"), [("initial", "initial"), ("S", "written"), ("keeps", "keeps")])
def test_a_relation_with_a_piece_less_makes_no_state_machine(
    monkeypatch: pytest.MonkeyPatch, relation: str, function: str
) -> None:
    def lacking(reading: AccessPattern, *, by_tap: bool) -> Dependences:
        found = dependences(reading, by_tap=by_tap)
        whole = getattr(found, relation)
        return replace(found, **{relation: whole.subtract(whole.lexmax() if relation == "initial" else whole)})

    def lacking_too(reading: AccessPattern) -> str:
        return source_of(lacking(reading, by_tap=False), reading.writer)

    monkeypatch.setattr("kilotune.codegen.cm.lcu.dependences", lacking)
    monkeypatch.setattr("kilotune.codegen.cm.lcu.tabulated_source", lacking_too)
    reading = AccessPattern((Window((3, 3), (1, 1), (3, 3, 3, 3)),), Rectangle(0, 10, 0, 10), Rectangle(0, 6, 0, 6))
    with pytest.raises(WrongStateMachineError, match=f"`{function}` of the state machine") as error:
        state_machine(reading)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


def test_two_readers_of_one_array_have_state_machines_of_their_own() -> None:
    writer = Rectangle(0, 8, 0, 8)
    convolution = AccessPattern((Window((3, 3), (1, 1), (1, 1, 1, 1)),), writer, writer)
    pooling = AccessPattern((Window((2, 2), (2, 2)),), Rectangle(0, 4, 0, 4), writer)
    for reading in (convolution, pooling):
        needed = counts(reading)[0]
        assert allowed(needed, 64).tolist() == allowed_by_definition(reading)
    # the residual block of the paper's Figure 2: one array, read by the convolution and by the addition behind it
    both = AccessPattern((*convolution.windows, Window()), writer, writer)
    assert counts(both)[0].tolist() == counts(convolution)[0].tolist()


def test_iterations_that_read_only_padding_wait_for_those_before_them_and_for_nothing_else() -> None:
    """With dom K in the place of the whole domain, the corners of this would never be allowed."""
    writer = Rectangle(0, 2, 0, 2)
    reading = AccessPattern((Window((1, 1), (1, 1), (2, 2, 2, 2)),), Rectangle(0, 6, 0, 6), writer)
    found = dependences(reading)
    assert allowed_by_isl(reading, found) == [14, 15, 20, 21, 36]
    beyond_k = found.reader.subtract(found.K.domain())
    assert not beyond_k.is_empty()


def test_text_of_a_strided_state_machine() -> None:
    reading = AccessPattern((Window((3, 3), (2, 2), (1, 1, 1, 1)),), Rectangle(0, 8, 0, 8), Rectangle(0, 16, 0, 16))
    source = state_machine(reading).source
    expected = (
        "def written(h, w):\n"
        "    if (h + 1) % 2 == 0 and (w + 1) % 2 == 0:\n"
        "        return (h - 1) // 2, (w - 1) // 2\n"
        "    return None\n"
    )
    assert expected in source


def test_loop_nest_is_row_major_in_any_rectangle() -> None:
    text, iterations = loop_nest(Rectangle(2, 5, 1, 4))
    assert list(iterations()) == [(h, w) for h in range(2, 5) for w in range(1, 4)]
    assert "for oh in range(2, 5):" in text
    assert list(loop_nest(Rectangle(3, 4, 5, 6))[1]()) == [(3, 5)]
