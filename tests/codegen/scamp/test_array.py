"""The array simulator against SciPy's correlation, a definition of its edges, and the laws of its noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.signal import correlate2d

from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.codegen.scamp.naive import naive_plan
from kilotune.codegen.scamp.registers import allocate, fits
from kilotune.codegen.scamp.relaxation import relax
from kilotune.codegen.scamp.text import format_program
from kilotune.evaluators.scamp5.array import Chip, NoiseModel, run, shifted
from kilotune.evaluators.scamp5.quality import convolve, measure, structural_similarity
from kilotune.evaluators.scamp5.symbolic import prove
from tests.codegen.scamp.random_plans import TARGETS, kernels
from tests.codegen.scamp.test_programs import LAPLACIAN_5, LISTING_1, SOBEL_7

pytestmark = pytest.mark.slow

IMAGE = np.random.default_rng(5).integers(0, 256, (14, 11)).astype(float)


def scipy_correlation(image: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Zero-padded, centred as the paper centres even kernels: right of the left middle, above the lower middle."""
    picture = np.array([[float(w) for w in row] for row in kernel.picture()])
    full = correlate2d(image, picture, mode="full")
    top, left = kernel.rows - 1 - kernel.rows // 2, kernel.columns - 1 - (kernel.columns - 1) // 2
    return full[top : top + image.shape[0], left : left + image.shape[1]]


@given(kernels())
@settings(max_examples=40)
def test_the_exact_convolution_is_scipys(kernel: Kernel) -> None:
    assert np.array_equal(convolve(IMAGE, kernel), scipy_correlation(IMAGE, kernel))


@given(kernels(sides=4), kernels(sides=2), TARGETS)
@settings(max_examples=60)
def test_random_kernels_from_plan_to_pixels(first: Kernel, second: Kernel, target: str) -> None:
    wanted = KernelSet((first, second)).approximate(3)
    plain = naive_plan(wanted.sums, 3, target)
    for plan in (plain, relax(plain, medians_only=True)):
        text = format_program(allocate(plan)) if fits(plan, 6) else format_program(allocate(plain))
        prove(text, wanted.sums, 3)
        done = run(text, IMAGE)
        for kernel, result, known in zip((first, second), done.results, done.known, strict=True):
            assert np.array_equal(result[known], scipy_correlation(IMAGE, kernel)[known])
            assert known[4:-4, 4:-4].all()


def test_reading_beyond_the_edge_gives_zero() -> None:
    image = np.arange(1.0, 7.0).reshape(2, 3)
    assert shifted(image, (1, 0)).tolist() == [[2, 3, 0], [5, 6, 0]]
    assert shifted(image, (0, 1)).tolist() == [[0, 0, 0], [1, 2, 3]]  # row 0 is the northern one
    assert shifted(image, (-2, -1)).tolist() == [[0, 0, 4], [0, 0, 0]]
    assert not shifted(image, (3, 0)).any()


def test_known_is_where_every_pixel_was_there() -> None:
    known = run(SOBEL_7, IMAGE).known[0]
    assert known[1:-1, 1:-1].all()
    assert known.sum() == (14 - 2) * (11 - 2)
    there_and_back = "# auke; image in A; results in A\nA = east(A)\nA = east(A)\nA = west(A)\nA = west(A)"
    result = run(there_and_back, IMAGE)
    assert result.known[0].sum() == 14 * 9
    assert np.array_equal(result.results[0][:, 2:], IMAGE[:, 2:])
    assert not result.results[0][:, :2].any()


def test_many_images_at_once() -> None:
    images = np.stack([IMAGE, 255 - IMAGE])
    for number in (0, 1):
        assert np.array_equal(run(LISTING_1, images).results[0][number], run(LISTING_1, images[number]).results[0])


def test_registers_saturate() -> None:
    text = "# auke; image in A; results in B, C\nB = add(A, A)\nC = neg(B)"
    up, down = run(text, np.full((2, 2), 100.0), Chip(full_scale=127.5)).results
    assert (up == 127.5).all()
    assert (down == -127.5).all()
    assert run(text, np.full((2, 2), 100.0)).largest == 200


def test_division_leaves_the_negated_half_and_the_operand() -> None:
    halves = run("# scamp5; image in A; results in B, C, D\nB, C, D = div(A)", IMAGE).results
    assert [np.array_equal(found, IMAGE * factor) for found, factor in zip(halves, (0.5, -0.5, 1), strict=True)] == [
        True
    ] * 3
    zeros = run("# scamp5; image in A; results in B, C\nB, C = res()", IMAGE).results
    assert not np.any(zeros)


def test_noise_is_seeded_and_as_large_as_it_says() -> None:
    text = "# scamp5; image in A; results in B, C\nB = mov(A)\nC = mov2x(A, east, north)"
    image = np.full((256, 256), 80.0)
    noise = NoiseModel(signal_dependent=0.01, signal_independent=0.5)
    first, second, other = (run(text, image, Chip(None, noise, seed)) for seed in (1, 1, 2))
    assert np.array_equal(first.results[0], second.results[0])
    assert not np.array_equal(first.results[0], other.results[0])
    per_transfer = np.hypot(0.01 * 80, 0.5)
    assert np.std(first.results[0] - 80) == pytest.approx(per_transfer * np.sqrt(2), rel=0.02)
    inner = first.known[1]
    assert np.std(first.results[1][inner] - 80) == pytest.approx(per_transfer * np.sqrt(3), rel=0.02)


def test_quality_without_noise_is_perfect_and_gets_worse_with_it() -> None:
    pytest.importorskip("skimage")
    kernel = Kernel.of_rows([[0, 1, 0], [1, -4, 1], [0, 1, 0]])
    images = np.random.default_rng(1).integers(0, 256, (2, 40, 40))
    exact = measure(LAPLACIAN_5, (kernel,), images, Chip(127.5))
    assert exact.rmse_grey_levels == pytest.approx(0, abs=1e-9)
    assert exact.ssim == pytest.approx(1)
    assert 0.1 < exact.amplitude < 1
    some, more = (
        measure(LAPLACIAN_5, (kernel,), images, Chip(127.5, NoiseModel(0.005, independent))) for independent in (0.3, 3)
    )
    assert 0 < some.rmse_grey_levels < more.rmse_grey_levels
    assert 1 > some.ssim > more.ssim


def test_similarity_of_an_image_with_itself() -> None:
    pytest.importorskip("skimage")
    assert structural_similarity(IMAGE, IMAGE) == pytest.approx(1)
    assert structural_similarity(IMAGE, IMAGE[::-1].copy()) < 0.5


def test_photographs_are_reproducible() -> None:
    pytest.importorskip("skimage")
    from kilotune.evaluators.scamp5.images import photographs

    first = photographs(2, seed=3)
    assert first.shape == (2, 256, 256)
    assert np.array_equal(first, photographs(2, seed=3))
    assert not np.array_equal(first, photographs(2, seed=4))
