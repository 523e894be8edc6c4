"""What `tune list` shows of decision trees."""

from __future__ import annotations

from kilotune.experiments.models.catalogue import forest_names, forest_path, model_origin
from kilotune.experiments.problems.family import ListedRows, ListingRequest
from kilotune.experiments.problems.forest.problem import build_problem
from kilotune.experiments.requests.request import TuneRequest


def forests(asked: ListingRequest) -> ListedRows:
    """The bundled forests. Measured now, in 32-bit floats: no figure is copied from anywhere."""
    listed = []
    for name in forest_names():
        problem = build_problem(TuneRequest("forest", str(forest_path(name)), "refine"))
        trees, reached = problem.space.task.forest, problem.float_metrics()
        origin = model_origin(name)
        listed.append(
            {
                "name": name,
                "trees": len(trees.trees),
                "comparisons": sum(len(tree.feature) for tree in trees.trees),
                "classes": trees.class_count,
                "train_samples": problem.sample_counts()["train"],
                "float_train_accuracy_percent": round(float(reached["train"]["accuracy_percent"]), 2),
                "float_test_accuracy_percent": round(float(reached["test"]["accuracy_percent"]), 2),
                "source": origin.source,
                "licence": origin.licence,
            }
        )
    return listed
