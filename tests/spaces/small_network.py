"""A small recurrent classifier with every kind of decision: input, parameters, exponential tables, a hidden state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.headroom import FEW_SAMPLES
from kilotune.evaluators.fixed_point.measuring import Task
from tests.codegen.fixed.programs import HERE, variable

SAMPLES, STEPS, HIDDEN = 90, 4, 3


def small_network(seed: int = 0) -> Task:
    """4 steps of 2 features, 3 hidden units, 3 classes; labels are the float program's, so its accuracy is 100 %."""
    rng = np.random.default_rng(seed)
    parameters = {
        "W": rng.normal(0, 1, (2, HIDDEN)),
        "U": rng.normal(0, 0.6, (HIDDEN, HIDDEN)),
        "B": rng.normal(0, 1, (1, HIDDEN)),
        "F": rng.normal(0, 2, (HIDDEN, 3)),
    }
    temporaries = {"a": HIDDEN, "b": HIDDEN, "c": HIDDEN, "d": HIDDEN, "H": HIDDEN, "e": HIDDEN, "scores": 3}
    variables = [variable("X", (2 * STEPS, 1), ir.Role.INPUT)]
    variables += [variable(n, p.shape, ir.Role.PARAMETER) for n, p in parameters.items()]
    variables += [variable(n, (1, size)) for n, size in temporaries.items()] + [variable("label", ())]
    v = {x.name: ir.whole(x) for x in variables}
    step = ir.View("X", (1, 2), (2, 1), ir.Affine(0, (("t", 2),)))
    body: tuple[ir.Statement, ...] = (
        ir.MatMul(v["a"], HERE, step, v["W"]),
        ir.MatMul(v["b"], HERE, v["H"], v["U"]),
        ir.Add(v["c"], HERE, v["a"], v["b"]),
        ir.Add(v["d"], HERE, v["c"], v["B"]),
        ir.Tanh(v["H"], HERE, v["d"]),
    )
    program = ir.Program(
        "small",
        tuple(variables),
        (
            ir.Fill(v["H"], HERE, 0.0),
            ir.Loop("t", 0, STEPS, body, HERE),
            ir.Sigmoid(v["e"], HERE, v["H"]),
            ir.MatMul(v["scores"], HERE, v["e"], v["F"]),
            ir.ArgMax(v["label"], HERE, v["scores"]),
        ),
        v["label"],
        ir.ResultKind.CLASS,
    )
    features = rng.uniform(-1, 1, (SAMPLES, 2 * STEPS))
    from kilotune.codegen.float_evaluator import run_float

    labels = run_float(program, parameters, features).labels.astype(np.float64)
    return Task(program, parameters, features, labels)


def of_many_samples(task: Task) -> Task:
    """The same samples again and again, until they are so many that variables of a classifier have no room beyond them."""
    assert task.targets is not None
    times = -(-FEW_SAMPLES // len(task.features))
    return replace(task, features=np.tile(task.features, (times, 1)), targets=np.tile(task.targets, times))
