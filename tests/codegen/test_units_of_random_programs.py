"""Units that are left out of random programs, one after the other until each group has a single one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given

from kilotune.codegen import ir
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.unit_pruning import FloatModel, SmallerModel, UnitPruning, unit_groups
from tests.codegen.emit.random_programs import RandomModel, random_models
from tests.codegen.test_shared_axes import outputs, zeroed


@given(random_models(classifies=False))
def test_a_random_program_without_a_place_computes_what_the_whole_one_does_with_zeros_there(made: RandomModel) -> None:
    model = FloatModel(made.program, made.parameters)
    for group in unit_groups(model.program):
        for place in range(group.size if group.size > 1 else 0):
            kept = np.delete(np.arange(group.size), place)
            smaller = SmallerModel.whole(model).without(model.program, dict.fromkeys(group.axes, kept))
            wanted = outputs(zeroed(model, group.axes, place), made.features)
            np.testing.assert_allclose(outputs(smaller, made.features), wanted, rtol=1e-6, atol=1e-9)


@given(random_models(), random_models(classifies=False))
def test_weights_of_random_programs_are_fitted_until_each_group_has_one_unit(
    first: RandomModel, second: RandomModel
) -> None:
    for made in (first, second):
        whole = FloatModel(made.program, made.parameters)
        wanted = run_float(whole.program, whole.parameters, made.features).outputs
        if not unit_groups(whole.program) or not np.isfinite(wanted).all():
            continue
        pruning, smaller = UnitPruning(whole, made.features, np.ones(len(made.features))), SmallerModel.whole(whole)
        while groups := [one for one in unit_groups(smaller.program, smaller.parts) if one.size > 1]:
            group = groups[-1]
            unit = pruning.least_missed(smaller, group) if pruning.is_summed(smaller, group) else 0
            before, smaller = smaller, pruning.without(smaller, group, unit)
            if group.size > 2:  # axes of a single place are none
                assert replace(group, size=group.size - 1) in unit_groups(smaller.program, smaller.parts)
            shapes = {v.name: v.shape for v in smaller.program.variables if v.role is ir.Role.PARAMETER}
            assert shapes == {name: np.shape(values) for name, values in smaller.parameters.items()}
            assert sum(map(np.size, smaller.parameters.values())) < sum(map(np.size, before.parameters.values()))
            found = run_float(smaller.program, smaller.parameters, made.features).outputs
            assert found.shape == wanted.shape
            assert np.isfinite(found).all()
        largest = {row: 2.0 for row, _ in enumerate(ir.operations(smaller.program.body))}
        count = len(smaller.program.variables)
        ShiftryLowering(smaller.program, largest).lower(np.full((1, count), 16), np.full((1, count), 10))
