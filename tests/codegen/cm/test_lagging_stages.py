"""Networks of which no result hangs on some stage: they run all their iterations behind the results of the images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from kilotune.evaluators.cm.timing import simulate, simulate_whole
from kilotune.experiments.problems.cm.mapped_network import MappedNetwork
from kilotune.experiments.problems.cm.problem import build_problem
from kilotune.experiments.requests.request import TuneRequest
from tests.codegen.cm.networks import model
from tests.codegen.cm.test_found_by_readers import weights


def padding_alone() -> Any:
    """The last convolution reads the row above its image's only one, so that nothing hangs on the image."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("GlobalAveragePool", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "v", "k"], ["y"], strides=[2, 2], pads=[1, 0, 0, 0]),
    ]
    return model(nodes, [1, 2, 9, 9], {"w": weights(3, 2, 3, 3), "v": weights(4, 3, 1, 1), "k": weights(4)})


def half_unread() -> Any:
    """The last of the convolution's columns are read by nobody; the core that has them is further away than an image takes."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["m"], kernel_shape=[1, 2]),
        helper.make_node("Conv", ["m", "w"], ["a"]),
        helper.make_node("Split", ["a", "parts"], ["b", "c"], axis=1),
        helper.make_node("Conv", ["b", "v"], ["y"]),
    ]
    constants = {"w": weights(300, 2, 1, 1), "v": weights(2, 2, 1, 1), "parts": np.int64([2, 298])}
    return model(nodes, [1, 2, 1, 2], constants)


def mapped(network: Any, folder: Path) -> tuple[MappedNetwork, dict[str, Any]]:
    """The problem of a network, and a candidate that has its stages in a row, but for the one before the last."""
    onnx.save(network, str(folder / "net.onnx"))
    problem = build_problem(TuneRequest("cm", str(folder / "net.onnx"), "anneal", 0, {}))
    assert isinstance(problem, MappedNetwork)
    stages = len(problem.space.lowered({}).pipeline.stages)
    return problem, dict(problem.space.candidate({}, [*range(stages - 2), 63, stages - 2]))


@pytest.mark.parametrize("network", [padding_alone, half_unread])
def test_all_iterations_of_the_images_take_place(network: Any, tmp_path: Path) -> None:
    problem, candidate = mapped(network(), tmp_path)
    setting = problem.setting(candidate)
    stages = setting.pipeline.stages
    assert any(n < 2 * s.iterations for n, s in zip(simulate(setting, 3).started, stages, strict=True)), "one is behind"
    finish, starts = simulate_whole(setting, 2)
    assert finish[0] < finish[1]
    for stage, ticks in zip(stages, starts, strict=True):
        assert len(ticks) == 2 * stage.iterations
        assert (np.diff(ticks) > 0).all(), "each iteration has a tick of its own"
    verified = problem.verify(candidate)
    assert verified is not None
    assert (verified.images, verified.different) == (2, 0)
