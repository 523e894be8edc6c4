"""Smaller models as JSON, for the memory of a space: making them takes seconds, and a search that goes on asks for the same ones again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kilotune.codegen.branch_pruning import branches, without_choice
from kilotune.codegen.unit_pruning import FloatModel, SmallerModel


def model_as_json(model: SmallerModel) -> dict[str, Any]:
    """What of another model it has, and its parameters."""
    return {
        "choices": [list(one) for one in model.choices],
        "units": [[name, part, places.tolist()] for (name, part), places in model.units.items()],
        "parameters": {
            name: np.asarray(values, np.float64).reshape(-1).tolist() for name, values in model.parameters.items()
        },
    }


def model_from_json(whole: FloatModel, stored: Mapping[str, Any]) -> SmallerModel:
    """The model of which `model_as_json` has said this, made of the same other one."""
    model = SmallerModel.whole(whole)
    for name, way in stored["choices"]:
        taken = next(one for one in branches(model.program) if (one.name, one.way) == (name, way))
        model = without_choice(model, taken)
    kept = {}
    for name, part, places in stored["units"]:
        there, wanted = model.units.get((name, part)), np.array(places, dtype=np.int64)
        kept[name, part] = wanted if there is None else np.searchsorted(there, wanted)
    parameters = {name: np.array(values) for name, values in stored["parameters"].items()}
    return model.without(model.program, kept).with_parameters(parameters)
