"""The face detector: shapes, programs, windows; with OpenCV, its cascade and its own windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.scamp.composition import FLIP, MIRROR, composed, dilated, turned
from kilotune.codegen.scamp.plan import Plan, PlanStep, computed
from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.scamp5.array import ARRAY_SIZE
from kilotune.evaluators.scamp5.symbolic import WrongProgramError
from kilotune.experiments.faces.array_values import ArrayValues
from kilotune.experiments.faces.cascade import (
    Cascade,
    CascadeStage,
    Stump,
    WeightedRectangle,
    frontal_face_file,
    read_cascade,
)
from kilotune.experiments.faces.programs import compile_shapes, load_programs, proved, save_programs, total
from kilotune.experiments.faces.shapes import kernel_sum, placed, symmetries
from kilotune.experiments.faces.windows import normalisation, passing, reference_values, visited
from kilotune.spaces.reverse_split.programs import load_kernel
from kilotune.spaces.reverse_split.separable import runs, separable_plan

pytestmark = pytest.mark.slow

FEATURES = (
    (WeightedRectangle(2, 3, 6, 4, -1), WeightedRectangle(5, 3, 3, 4, 2)),  # light on the right
    (WeightedRectangle(10, 5, 6, 4, -1), WeightedRectangle(13, 5, 3, 4, 2)),  # the same elsewhere
    (WeightedRectangle(4, 4, 3, 6, -1), WeightedRectangle(4, 6, 3, 2, 3)),  # a line
    (
        WeightedRectangle(1, 2, 4, 6, -1),
        WeightedRectangle(1, 2, 2, 3, 2),
        WeightedRectangle(3, 5, 2, 3, 2),
    ),  # a checkerboard
    (WeightedRectangle(0, 18, 4, 6, -1), WeightedRectangle(0, 18, 4, 3, 2)),  # light above, at the window's edge
)

XML = """<?xml version="1.0"?>
<opencv_storage><cascade type_id="opencv-cascade-classifier"><featureType>HAAR</featureType>
<height>24</height><width>24</width>
<stages><_><stageThreshold>0.5</stageThreshold><weakClassifiers>
<_><internalNodes>0 -1 {feature} 0.25</internalNodes><leafValues>1. -2.</leafValues></_></weakClassifiers></_></stages>
<features><_><rects><_>2 3 6 4 -1.</_><_>5 3 3 4 2.</_></rects>{tilted}</_></features></cascade></opencv_storage>
"""

needs_compiler = pytest.mark.skipif(load_kernel() is None, reason="no C compiler")


def small_cascade(*stages: tuple[tuple[int, float, float, float], ...]) -> Cascade:
    single = np.float32
    return Cascade(
        24,
        24,
        tuple(
            CascadeStage(tuple(Stump(f, single(t), single(a), single(b)) for f, t, a, b in s), single(0))
            for s in stages
        ),
        FEATURES,
    )


CASCADE = small_cascade(
    ((0, 0.01, -1.0, 1.0), (1, -0.005, 0.5, -0.25), (2, 0.0, 0.3, -0.3)), ((3, 0.0, -1.0, 1.0), (4, 0.0, 0.2, -0.4))
)


def photograph_like(rows: int, columns: int) -> np.ndarray:
    generator = np.random.default_rng(3)
    coarse = generator.integers(0, 256, (rows // 6 + 1, columns // 6 + 1))
    return np.kron(coarse, np.ones((6, 6)))[:rows, :columns].astype(np.uint8)


def window_sum(feature: tuple[WeightedRectangle, ...], image: np.ndarray, row: int, column: int) -> int:
    window = image[row : row + 24, column : column + 24].astype(int)
    return sum(b.weight * int(window[b.top : b.top + b.height, b.left : b.left + b.width].sum()) for b in feature)


def test_equal_shapes_at_different_places_are_one() -> None:
    first, second = placed(FEATURES[0]), placed(FEATURES[1])
    assert first.shape == second.shape == ((-1, -1, -1, 1, 1, 1),) * 4
    assert (first.left, first.top, second.left, second.top) == (2, 3, 10, 5)
    assert placed(FEATURES[3]).shape == ((1, 1, -1, -1),) * 3 + ((-1, -1, 1, 1),) * 3
    with pytest.raises(ValueError, match="without a weight"):
        placed((WeightedRectangle(0, 0, 2, 2, 1), WeightedRectangle(0, 0, 2, 2, -1)))


def test_turned_shapes_come_back_with_their_plans() -> None:
    shape = ((1, 2, 3), (4, 5, 6))
    walk = Plan(
        "auke",
        0,
        (PlanStep("east", (0,)), PlanStep("east", (1,)), PlanStep("north", (2,)), PlanStep("add", (3, 0))),
        (4,),
    )
    turnings = symmetries(shape)
    assert len({turning for turning, _ in turnings}) == 8
    for turning, back in turnings:
        found, plan = kernel_sum(turning), walk
        for renaming in back:
            found = Sum.of((_moved(cell, renaming), weight) for cell, weight in found)
            plan = turned(plan, renaming)
        wanted = kernel_sum(shape)
        assert found.shifted((wanted.box[0] - found.box[0], wanted.box[1] - found.box[1])) == wanted
        cell = (2, 1)
        for renaming in back:
            cell = _moved(cell, renaming)
        assert computed(plan) == (Sum.of([((0, 0), 1), (cell, 1)]),)


def _moved(cell: tuple[int, int], renaming: object) -> tuple[int, int]:
    x, y = cell
    return (-x, y) if renaming is MIRROR else (x, -y) if renaming is FLIP else (y, x)


def test_composed_and_dilated_plans_multiply() -> None:
    difference = Plan("scamp5", 0, (PlanStep("subx", (0, 0), ("east",)),), (1,))
    pair = Plan("scamp5", 0, (PlanStep("movx", (0,), ("west",)), PlanStep("addx", (1, 0), ("north",))), (2,))
    (product,) = computed(composed(difference, pair))
    wanted = Sum.of(((x + u, y + v), a * b) for (x, y), a in computed(difference)[0] for (u, v), b in computed(pair)[0])
    assert product == wanted
    for plan in (difference, pair):
        assert computed(dilated(plan, 3)) == (Sum.of(((3 * x, 3 * y), w) for (x, y), w in computed(plan)[0]),)
    with pytest.raises(ValueError, match="one target"):
        composed(difference, Plan("auke", 0, (), (0,)))


def test_runs_of_a_row() -> None:
    row = Sum.of(((x, 0), w) for x, w in enumerate((-1, -1, 2, 2, -1, -1)))
    assert runs(row) == (2, Sum.of({(0, 0): -1, (1, 0): 2, (2, 0): -1}))


@needs_compiler
@pytest.mark.parametrize(("target", "most"), [("auke", 16), ("scamp5", 9)])
def test_programs_of_separable_kernels(target: str, most: int) -> None:
    wanted = kernel_sum(((-1, -1, -1, 1, 1, 1),) * 6)
    plan = separable_plan(wanted, target, 0)
    assert computed(plan) == (wanted,)
    assert len(plan.steps) <= most  # 16 is the lower bound of the auke set
    with pytest.raises(ValueError, match="no row times a column"):
        separable_plan(kernel_sum(((1, 0), (1, 1))), target, 0)


@needs_compiler
@pytest.mark.parametrize("target", ["auke", "scamp5"])
def test_the_array_decides_as_the_integral_image_does(target: str, tmp_path: Path) -> None:
    shapes = tuple(dict.fromkeys(placed(feature).shape for feature in FEATURES))
    programs = compile_shapes(shapes, target, 0)
    assert len(programs) == 4
    save_programs(tmp_path / "programs.json", programs)
    assert load_programs(tmp_path / "programs.json") == programs
    counted = total(CASCADE, range(5), programs)
    lengths = [programs[placed(feature).shape].program.instructions for feature in FEATURES]
    assert (counted.features, counted.instructions) == (5, sum(lengths))
    image = photograph_like(60, 71)
    values, reference = ArrayValues(CASCADE, image, programs), reference_values(CASCADE, image)
    for number, feature in enumerate(FEATURES):
        assert np.array_equal(values(number), reference(number))
        for row, column in ((0, 0), (17, 30), (36, 47)):
            assert values(number)[row, column] == window_sum(feature, image, row, column)
    assert values.distinct == 4
    assert not values.blind.any()
    stands = list(passing(CASCADE, image, values))
    assert 0 < stands[-1].sum() < stands[1].sum() < stands[0].sum()
    for ours, theirs in zip(stands, passing(CASCADE, image, reference), strict=True):
        assert np.array_equal(ours, theirs)
    with pytest.raises(ValueError, match="does not fit"):
        ArrayValues(CASCADE, np.zeros((ARRAY_SIZE + 1, 30), np.uint8), programs)


@needs_compiler
def test_a_program_of_another_shape_is_refused() -> None:
    shape = ((-1, 1), (-1, 1))
    text = compile_shapes([shape], "auke", 0)[shape].text
    with pytest.raises(WrongProgramError):
        proved(((-1, 1), (1, 1)), text)
    with pytest.raises(WrongProgramError):
        proved(shape, text.replace("\n", "\nA = east(A)\nA = east(A)\n", 1))


def test_flat_windows_and_steps() -> None:
    image = np.full((40, 40), 90, np.uint8)
    _, eligible = normalisation(CASCADE, image)
    assert not eligible.any()
    image[::2] = 111  # deviation 10.5
    assert normalisation(CASCADE, image)[1].all()
    image[::2] = 109  # 9.5
    assert not normalisation(CASCADE, image)[1].any()
    start, first = np.ones((4, 8), bool), np.zeros((4, 8), bool)
    first[:, 4:] = True
    assert np.flatnonzero(visited([start, first], 2)[0]).tolist() == [0, 4, 6]
    assert np.flatnonzero(visited([~start, first], 2)[0]).tolist() == [0, 2, 4, 6]
    assert np.flatnonzero(visited([start, first], 2).any(axis=1)).tolist() == [0, 2]


def test_cascade_files(tmp_path: Path) -> None:
    path = tmp_path / "cascade.xml"
    path.write_text(XML.format(feature=0, tilted=""))
    cascade = read_cascade(path)
    assert cascade.features == (FEATURES[0],)
    assert cascade.stages[0].stumps == (Stump(0, np.float32(0.25), np.float32(1), np.float32(-2)),)
    assert cascade.stages[0].threshold == pytest.approx(0.49999, abs=1e-7)
    for text, found in (
        (XML.format(feature=1, tilted=""), "feature 1 of 1"),
        (XML.format(feature=0, tilted="<tilted>1</tilted>"), "a tilted feature"),
        ("<a/>", "no cascade"),
        ("<a>", "no element|mismatched|not well-formed"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=found):
            read_cascade(path)


@pytest.fixture(scope="module")
def frontal_face() -> Path:
    try:
        return frontal_face_file()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


def test_the_frontal_face_cascade(frontal_face: Path) -> None:
    cascade = read_cascade(frontal_face)
    assert (cascade.width, cascade.height, len(cascade.stages), len(cascade.features)) == (24, 24, 25, 2913)
    assert [len(stage.stumps) for stage in cascade.stages[:3]] == [9, 16, 27]
    assert sorted(s.feature for stage in cascade.stages for s in stage.stumps) == list(range(2913))
    shapes = {placed(feature).shape for feature in cascade.features}
    # The paper says 1656; this file has 576, 311 when turned and mirrored ones are one.
    assert len(shapes) == 576
    assert len({min(turning for turning, _ in symmetries(shape)) for shape in shapes}) == 311
    assert all(sum(map(sum, shape)) == 0 for shape in shapes)


def test_the_windows_are_those_of_opencv(frontal_face: Path) -> None:
    data = pytest.importorskip("skimage.data")
    cv2 = pytest.importorskip("cv2")
    from kilotune.experiments.faces.opencv import opencv_boxes, passed_boxes, pyramid

    face = cv2.cvtColor(data.astronaut()[:256, 128:384], cv2.COLOR_RGB2GRAY)
    image = cv2.resize(face, (128, 128), interpolation=cv2.INTER_AREA)
    cascade, found = read_cascade(frontal_face), set()
    for scale in pyramid(image, cascade, 1.3):
        found |= passed_boxes(
            scale, list(passing(cascade, scale.image, reference_values(cascade, scale.image))), cascade
        )
    assert len(found) >= 5
    assert found == opencv_boxes(frontal_face, image, 1.3)


@needs_compiler
def test_the_first_stage_in_the_array(frontal_face: Path) -> None:
    data = pytest.importorskip("skimage.data")
    cascade = read_cascade(frontal_face)
    image = np.ascontiguousarray(data.astronaut()[60:124, 190:254, 1])
    numbers = [stump.feature for stump in cascade.stages[0].stumps]
    programs = compile_shapes((placed(cascade.features[number]).shape for number in numbers), "auke", 0)
    values = ArrayValues(cascade, image, programs)
    stands = list(passing(cascade, image, values, 1))
    reference = list(passing(cascade, image, reference_values(cascade, image), 1))
    assert len(stands) == 2
    assert np.array_equal(stands[1], reference[1])
    assert 0 < stands[1].sum() < stands[0].sum()
