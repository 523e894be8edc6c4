"""What becomes of a classifier's new samples with and without room for values beyond those of few training samples.

    python -m kilotune.experiments.benchmarks.classifier_room [--samples 40,80,160,240,320,400,500,1000] [--trials N] [MODEL ...]

The twelve generated models (`small_models`), each trained on so many samples and looked at on the others, 2000 or more, or bundled ones,
of which a search sees so many of the training samples and which are looked at on all others: in 16 bits everywhere, and as local search
(`refine`) finds them within 1.2 times the flash of 8 bits everywhere. A row says, as means over the models, how many per cent of the new
samples change their class without room for values of 16 bits and with it, how many of these have a value beyond its format, and of how
many models fewer and more change with room.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.headroom import headroom, samples_beyond
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.experiments.benchmarks.small_models import generated_models, write_small_model
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.search.budget import Budget
from kilotune.search.space import Assignment
from kilotune.search.study import Study
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.formats import DEMOTED_BITS, parse_format
from kilotune.spaces.shiftry.space import ShiftrySpace

SHARE_OF_LEAST_FLASH = 1.2


class WithRoom(ShiftrySpace):
    """As if the training samples were few."""

    meets_surer_scores = True


class WithoutRoom(ShiftrySpace):
    """As if they were many."""

    meets_surer_scores = False


class FlipsOnNew(NamedTuple):
    """Per cent of the new samples that change class, and of those that have a value beyond its format and change class."""

    flipped: float
    beyond: float


def seen_of(space: ShiftrySpace, chosen: Assignment, new: Task) -> FlipsOnNew:
    """A candidate on new samples."""
    batch, evaluator = space.lower([chosen]), space.evaluator.on(new)
    flipped = evaluator.simulator.run(batch)[0, :, 0] != evaluator.float_outputs[:, 0]
    room = headroom(batch.program, space.profile, batch.bits[0].tolist(), batch.scales[0].tolist())
    beyond = samples_beyond(batch.program, space.task.parameters, new.features[flipped], room) if flipped.any() else 0
    return FlipsOnNew(100.0 * float(flipped.mean()), 100.0 * beyond / len(flipped))


def found_of(kind: type[ShiftrySpace], task: Task, new: Task, trials: int) -> Iterator[tuple[str, FlipsOnNew]]:
    """By the words of the table."""
    space = kind(task, ShiftryOptions())
    first = {decision.name: decision.options[0] for decision in space.decisions}
    yield "16 bits", seen_of(space, first, new)
    narrow = {
        decision.name: next(o for o in decision.options if parse_format(str(o)).bits == DEMOTED_BITS)
        for decision in space.decisions
    }
    least = space.costs([narrow])[0]["flash_bytes"]
    limited = kind(task, ShiftryOptions(flash_limit_bytes=int(SHARE_OF_LEAST_FLASH * least)))
    study = Study(limited, "refine", 0)
    study.run(InProcessExecutor(limited), Budget(trials=trials))
    best = study.result().best
    if best is not None:
        yield f"{SHARE_OF_LEAST_FLASH} x the least flash", seen_of(limited, best.assignment, new)


def generated(samples: int, folder: Path) -> Iterator[Bundle]:
    """The generated models, trained on so many samples."""
    for model in generated_models():
        small = dataclasses.replace(model, name=f"{model.name}-{samples}", train_samples=samples)
        yield load_bundle(write_small_model(small, folder))


def bundled(names: Sequence[str], samples: int) -> Iterator[Bundle]:
    """Bundled models with so many of their training samples, drawn, and all others as test samples."""
    for name in names:
        bundle = load_bundle(resolve_model(name))
        assert bundle.train is not None
        assert bundle.test is not None
        order = np.random.default_rng(0).permutation(len(bundle.train.features))
        few, left = order[:samples], order[samples:]
        train = Dataset(bundle.train.features[few], bundle.train.targets[few])
        features = np.concatenate([bundle.train.features[left], bundle.test.features])
        targets = np.concatenate([bundle.train.targets[left], bundle.test.targets])
        yield dataclasses.replace(bundle, train=train, test=Dataset(features, targets))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--samples", default="40,80,160,240,320,400,500,1000")
    parser.add_argument("--trials", type=int, default=100)
    given = parser.parse_args()
    print("| training samples | program | % without room (of them beyond) | with room (beyond) | fewer, more |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="kilotune-room-") as folder:
        for samples in map(int, given.samples.split(",")):
            rows: dict[str, list[tuple[FlipsOnNew, FlipsOnNew]]] = {}
            for bundle in bundled(given.models, samples) if given.models else generated(samples, Path(folder)):
                tasks = task_of(bundle, bundle.train), task_of(bundle, bundle.test)
                found = [dict(found_of(kind, *tasks, given.trials)) for kind in (WithoutRoom, WithRoom)]
                for words in found[0].keys() & found[1].keys():
                    rows.setdefault(words, []).append((found[0][words], found[1][words]))
            for words, pairs in sorted(rows.items(), reverse=True):
                means = np.mean(np.array(pairs), axis=0)
                texts = [f"{flipped:.2f} ({beyond:.2f})" for flipped, beyond in means]
                fewer = sum(after.flipped < before.flipped for before, after in pairs)
                more = sum(after.flipped > before.flipped for before, after in pairs)
                print(f"| {samples} | {words} | {' | '.join(texts)} | {fewer}, {more} |", flush=True)


if __name__ == "__main__":
    main()
