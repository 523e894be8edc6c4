"""What pictures and tables say of cores that several stages share."""

from __future__ import annotations

from kilotune.evaluators.cm.bound import core_ticks
from kilotune.experiments.problems.cm.artefacts import _pictures
from kilotune.experiments.problems.cm.mapped_network import MappedNetwork
from kilotune.experiments.problems.cm.mesh import mesh_of
from kilotune.experiments.problems.cm.utilisation import stages_of, usage_of
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.space import Trial
from kilotune.spaces.cm.space import CmSpace
from tests.spaces.cm.test_sharing import block, shared


def test_a_shared_core_is_as_busy_as_all_its_stages_and_names_the_one_that_does_most() -> None:
    space = CmSpace.of(block(), shared(cores=(2, 2)))
    candidate = space.candidate({}, (3, 1, 3), buffer=0)
    lowered, mapping = space.lowered({}), space.mapping(candidate)
    usage = usage_of(lowered, space.hardware, mapping, 64.0)
    assert [(use.core, use.stage, use.others, use.ticks, use.share) for use in usage.cores] == [
        (3, 0, (2,), 32, 0.5),
        (1, 1, (), 16, 0.25),
    ]
    assert usage.busiest_cores[0].ticks == core_ticks(lowered.image_ticks, mapping.cores)
    assert [stages_of(lowered, use) for use in usage.cores] == ["a +1", "b"]
    marks = mesh_of(lowered, space.hardware, usage).cores
    assert "core 3: 2 stages" in marks[3].said
    assert {"a: 16 ticks per image", "c: 16 ticks per image", "32 ticks per image: 50.0 % busy"} <= set(marks[3].said)
    assert marks[1].said[0] == "core 1: b"
    assert marks[0].use is None


def test_the_picture_of_a_mapping_counts_cores_and_not_their_stages() -> None:
    space = CmSpace.of(block(), shared(cores=(2, 2)))
    candidate = space.candidate({}, (3, 1, 3), buffer=0)
    mapped = MappedNetwork(request_from("cm"), space, None)
    picture = _pictures(mapped, Trial(0, candidate, space.measure(candidate)))["picture"]
    assert "2 of 4 cores" in picture
    assert space.measure(candidate).metrics["cores"] == 2
