"""A candidate, its key and its stored text say the same thing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.search.candidates import follow, random_candidate
from kilotune.search.encoding import FlatEncoding, TreeEncoding, encoding_of
from kilotune.search.space import Decision
from kilotune.search.strategies.random import all_candidates
from tests.search.problems import FlatProblem, TreeProblem


@given(st.integers(0, 10**6), st.sampled_from([FlatProblem(5, 3, 1), FlatProblem(3, 300, 2), TreeProblem(5, 3, 4)]))
def test_a_candidate_survives_the_way_to_the_store_and_back(seed: int, space: FlatProblem | TreeProblem) -> None:
    encoding = encoding_of(space)
    candidate = random_candidate(space, np.random.default_rng(seed))
    key = encoding.key(candidate)
    restored = encoding.candidate(encoding.key_of_text(encoding.text(key)))
    assert list(restored.items()) == list(candidate.items())


@pytest.mark.parametrize("space", [FlatProblem(4, 3, 1), TreeProblem(4, 3, 4)])
def test_different_candidates_have_different_keys(space: FlatProblem | TreeProblem) -> None:
    encoding = encoding_of(space)
    candidates = list(all_candidates(space))
    assert len({encoding.key(c) for c in candidates}) == len(candidates)
    assert len({tuple(c.items()) for c in candidates}) == len(candidates)


def test_the_order_of_the_answers_makes_no_other_candidate() -> None:
    for encoding in (FlatEncoding([Decision("a", (1, 2)), Decision("b", (1, 2))]), TreeEncoding(TreeProblem(3, 2, 1))):
        assert encoding.key({"a": 1, "b": 2}) == encoding.key({"b": 2, "a": 1})


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        ({"d0": 10}, "'d1' open"),
        ({"d0": 10, "d1": 99}, "'d1' with 99"),
        ({"d0": 10, "d1": 10, "extra": 1}, "'extra', which is no decision"),
    ],
)
def test_what_is_no_candidate_is_refused(candidate: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encoding_of(FlatProblem(2, 2, 1)).key(candidate)


def test_options_that_python_takes_for_equal_are_refused() -> None:
    with pytest.raises(ValueError, match="no two that are equal"):
        FlatEncoding([Decision("a", (1, True))])


def test_following_answers_falls_back_to_the_first_option_where_they_are_not_offered() -> None:
    space = FlatProblem(3, 2, 1)
    assert follow(space, {"d0": 11, "d1": 77}) == {"d0": 11, "d1": 10, "d2": 10}
    assert follow(space, {"d0": 11, "d1": 11, "d2": 11}, {"d1": 10, "d2": 55}) == {"d0": 11, "d1": 10, "d2": 11}
