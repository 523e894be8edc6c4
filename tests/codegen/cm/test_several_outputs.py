"""Networks with several results, and networks whose rest is left for the host: a detector's scales, a head that no accelerator computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise, random_images
from kilotune.codegen.onnx.reference import evaluate
from kilotune.codegen.onnx.rewriting import integer_model
from kilotune.evaluators.cm.fidelity import fidelity, is_classifier
from kilotune.evaluators.cm.functional import ScheduleParameters, run
from kilotune.experiments.problems.cm.problem import build_problem
from kilotune.experiments.requests.request import TuneRequest
from tests.codegen.cm.networks import model
from tests.codegen.cm.test_bundle import machine_of


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(0, 0.4, shape).astype(np.float32)


def with_outputs(proto: Any, *names: str) -> Any:
    """Results besides `y`."""
    proto.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    return proto


def detector() -> Any:
    """Scores and boxes at two scales, one of them with its channels last; a vector of classes; and an image that others read as well."""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["fine"]),
        helper.make_node("Conv", ["fine", "w2"], ["coarse"], strides=[2, 2]),
        helper.make_node("Conv", ["coarse", "w3"], ["boxes"]),
        helper.make_node("Transpose", ["boxes"], ["last"], perm=[0, 2, 3, 1]),
        helper.make_node("Conv", ["fine", "w3"], ["sums"]),
        helper.make_node("Sigmoid", ["sums"], ["y"]),
        helper.make_node("GlobalAveragePool", ["coarse"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Softmax", ["flat"], ["classes"], axis=1),
    ]
    constants = {"w1": weights(4, 3, 3, 3), "w2": weights(4, 4, 3, 3), "w3": weights(2, 4, 1, 1)}
    return with_outputs(model(nodes, [1, 3, 7, 9], constants), "last", "classes", "fine")


def with_a_head() -> Any:
    """What two scales become in a detector: lists of places one behind the other, which no core makes."""
    proto = detector()
    del proto.graph.output[:]
    shape = helper.make_node("Constant", [], ["shape"], value=onnx.numpy_helper.from_array(np.array([1, 2, -1])))
    proto.graph.node.extend(
        [
            shape,
            helper.make_node("Reshape", ["y", "shape"], ["y.list"]),
            helper.make_node("Reshape", ["boxes", "shape"], ["boxes.list"]),
            helper.make_node("Concat", ["y.list", "boxes.list"], ["found"], axis=2),
        ]
    )
    return with_outputs(proto, "found")


def results_of(proto: Any, image: np.ndarray) -> list[np.ndarray]:
    """onnxruntime's, without the batch."""
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    value = session.get_inputs()[0]
    found = session.run(None, {value.name: np.asarray(image, np.float32).reshape([1, *value.shape[1:]])})
    return [result[0] for result in found]


def test_every_output_is_onnxruntimes_executed_and_exported() -> None:
    proto = detector()
    graph = import_model(proto, "detector")
    assert [output.name for output in graph.outputs] == ["y", "last", "classes", "fine"]
    images = random_images(graph.shapes[graph.input], 2, seed=4)
    tensors = evaluate(graph, images[0])
    for output, exact in zip(graph.outputs, results_of(proto, images[0]), strict=True):
        found = output.as_file(tensors[output.tensor])
        found = np.exp(found) / np.exp(found).sum() if output.host else found
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5)

    quantised = quantise(graph, images)
    integers = [quantised.image(image) for image in images]
    expected = [results_of(integer_model(proto, quantised), image) for image in integers]
    assert [len(np.unique(result)) > 2 for result in expected[0]] == [True] * 4
    lowered = lower(partition(quantised.graph), Crossbar(20, 3))
    free = run(lowered, integers)
    tight = run(lowered, integers, ScheduleParameters(capacities=free.fullest))
    exported = machine_of(lowered, integers, free.fullest).run()
    for image, wanted in enumerate(expected):
        for number, output in enumerate(graph.outputs):
            np.testing.assert_array_equal(tight.results[image][number], wanted[number])
            np.testing.assert_array_equal(output.as_file(exported[number][image]), wanted[number])


def test_the_error_is_that_of_the_worst_output() -> None:
    graph = import_model(detector(), "detector")
    images = np.stack(random_images(graph.shapes[graph.input], 3, seed=4))
    quantised = quantise(graph, images)
    errors = []
    for output in graph.outputs:
        exact = np.stack([evaluate(graph, image)[output.tensor] for image in images])
        integers = [evaluate(quantised.graph, quantised.image(i), integer=True)[output.tensor] for i in images]
        difference = np.stack(integers) * 2.0 ** quantised.exponents[output.tensor] - exact
        errors.append(np.sqrt(np.square(difference).sum() / np.square(exact).sum()))
    assert not is_classifier(graph)
    assert fidelity(graph, quantised, images).relative_error == pytest.approx(max(errors), rel=1e-3)


def test_what_no_core_computes_is_left_for_the_host_when_asked() -> None:
    proto = with_a_head()
    with pytest.raises(InputError, match=r"node 11 \(Reshape that writes 'y.list'\)"):
        import_model(proto, "detector")
    graph = import_model(proto, "detector", host=True)
    assert [output.name for output in graph.outputs] == ["y", "boxes"]
    assert graph.left == {"Reshape": 2, "Concat": 1}
    image = random_images(graph.shapes[graph.input], 1, seed=4)[0]
    tensors = evaluate(graph, image)
    lists = [tensors[output.tensor].reshape(2, -1) for output in graph.outputs]
    np.testing.assert_allclose(np.concatenate(lists, axis=1), results_of(proto, image)[0], rtol=1e-4, atol=1e-5)
    quantised = quantise(graph, [image])
    rewritten = integer_model(proto, quantised)
    assert "Reshape" not in {node.op_type for node in rewritten.graph.node}
    integers = evaluate(quantised.graph, quantised.image(image), integer=True)
    for output, wanted in zip(graph.outputs, results_of(rewritten, quantised.image(image)), strict=True):
        np.testing.assert_array_equal(integers[output.tensor], wanted)


def test_a_file_of_which_nothing_is_left_to_map_is_refused_as_ever() -> None:
    sines = model([helper.make_node("Sin", ["x"], ["y"])], [1, 2, 3, 3], {})
    with pytest.raises(InputError, match="found Sin"):
        import_model(sines, "sines", host=True)
    with pytest.raises(InputError, match="dynamic shape"):
        import_model(model([helper.make_node("Sin", ["x"], ["y"])], [1, 2, "h", 3], {}), "sines", host=True)


def test_a_flattened_image_with_its_channels_last_meets_its_own_matrix() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Transpose", ["a"], ["last"], perm=[0, 2, 3, 1]),
        helper.make_node("Flatten", ["last"], ["flat"]),
        helper.make_node("MatMul", ["flat", "matrix"], ["products"]),
        helper.make_node("Add", ["products", "bias"], ["y"]),
    ]
    constants = {"w": weights(3, 2, 2, 2), "matrix": weights(3 * 4 * 2, 5), "bias": weights(5)}
    proto = model(nodes, [1, 2, 5, 3], constants)
    graph = import_model(proto, "last")
    images = random_images(graph.shapes[graph.input], 2, seed=4)
    exact = results_of(proto, images[0])[0]
    np.testing.assert_allclose(evaluate(graph, images[0])[graph.output].reshape(-1), exact, rtol=1e-4, atol=1e-5)
    quantised = quantise(graph, images)
    integers = quantised.image(images[0])
    expected = results_of(integer_model(proto, quantised), integers)[0]
    np.testing.assert_array_equal(evaluate(quantised.graph, integers, integer=True)[graph.output].reshape(-1), expected)


def test_the_summary_says_what_is_left_for_the_host(tmp_path: Path) -> None:
    path = tmp_path / "detector.onnx"
    onnx.save(with_a_head(), str(path))
    problem = build_problem(TuneRequest("cm", str(path), "anneal", options={"host": True}))
    *_, found = problem.approximations()
    assert found is not None
    assert found["left_for_the_host"] == {"Reshape": 2, "Concat": 1}
    assert found["sentence"].startswith("Left for the host: 2 Reshape, 1 Concat. Integers: ")
