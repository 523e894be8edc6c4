"""What `tune list` shows of fixed-point programs."""

from __future__ import annotations

from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.float_evaluator import run_float
from kilotune.experiments.models.catalogue import model_names, model_origin, model_path
from kilotune.experiments.problems.family import ListedRows, ListingRequest


def models(asked: ListingRequest) -> ListedRows:
    """The bundled models. Measured now, with the float evaluator: no figure is copied from anywhere."""

    listed = []
    for name in model_names():
        bundle = load_bundle(model_path(name))
        accuracy: dict[str, float | None] = {"train": None, "test": None}
        for part, data in (("train", bundle.train), ("test", bundle.test)):
            if data is not None and bundle.class_count:
                labels = run_float(bundle.program, bundle.parameters, data.features).labels
                accuracy[part] = round(100.0 * float((labels == data.targets).mean()), 2)
        origin = model_origin(name)
        listed.append(
            {
                "name": name,
                "parameters": sum(int(array.size) for array in bundle.parameters.values()),
                "classes": bundle.class_count,
                "train_samples": None if bundle.train is None else len(bundle.train.features),
                "float_train_accuracy_percent": accuracy["train"],
                "float_test_accuracy_percent": accuracy["test"],
                "source": origin.source,
                "licence": origin.licence,
            }
        )
    return listed
