"""Smaller models that a search has made are there when it goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from kilotune.codegen.bundle import load_bundle
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.spaces.shiftry import closeness
from kilotune.spaces.shiftry import pruned_models as module
from kilotune.spaces.shiftry.kept_codes import packed, unpacked
from kilotune.spaces.shiftry.pruned_models import PrunedModel, pruned_models


class Remembering:
    """What JSON keeps of work, and how often there was any to do."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.made = 0

    def recalled(self, subject: Sequence[object], work: Callable[[], Any]) -> Any:
        key = repr(subject)
        if key not in self.kept:
            self.made += 1
            self.kept[key] = json.dumps(work())
        return json.loads(self.kept[key])


def said(model: PrunedModel) -> tuple[Any, ...]:
    numbers = {name: (values.shape, values.tolist()) for name, values in model.model.parameters.items()}
    return model.name, model.off, model.model.program, numbers


@pytest.mark.parametrize("name", ["protonn-cancer", "fastgrnn16-digits", "bonsai-digits"])
def test_models_that_are_recalled_are_those_that_were_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MODELS", 3)
    monkeypatch.setattr(closeness, "MOST_PRODUCTS", 1e8)  # no steps for the largest, which take seconds
    monkeypatch.setattr(module, "inputs_for_margins", lambda features, touched: features)
    bundle = load_bundle(resolve_model(name))
    assert bundle.train is not None
    features = np.asarray(bundle.train.features[:100])
    task = Task(bundle.program, bundle.parameters, features, np.asarray(bundle.train.targets[:100]))
    memory = Remembering()
    ways = pruned_models(task, 1.0, memory, ("a task",))
    first = next(ways)
    assert 0 < memory.made <= 5  # what was left out, and steps
    every = [said(one) for one in pruned_models(task, 1.0, memory, ("a task",))]
    assert len(every) == 3
    made = memory.made
    assert every[0] == said(first)
    assert [said(one) for one in pruned_models(task, 1.0, memory, ("a task",))] == every
    assert memory.made == made
    assert [said(one) for one in pruned_models(task, 1.0)] == every


def test_codes_of_no_parameter_are_recalled() -> None:
    assert unpacked(packed({}), {}) == {}
