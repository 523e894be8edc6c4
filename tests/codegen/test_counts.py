"""One thing is told in the singular, wherever a count stands in a sentence."""

from __future__ import annotations

import pytest

from kilotune.codegen.counts import counted
from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.scamp5.symbolic import WrongProgramError, prove
from kilotune.spaces.memory.bounds import largest_live_sum
from kilotune.spaces.memory.instance import Buffer, Instance


@pytest.mark.parametrize(("count", "said"), [(0, "0 trials"), (1, "1 trial"), (1.0, "1 trial"), (2, "2 trials")])
def test_only_one_is_singular(count: float, said: str) -> None:
    assert counted(count, "trial") == said


def test_sentences_about_one_thing() -> None:
    with pytest.raises(WrongProgramError, match=r"^The program has 1 result for 2 kernels\.$"):
        prove("# scamp5; image in A; results in A\n", [Sum.image(0)] * 2, 0)
    assert largest_live_sum(Instance("one", (Buffer("a", 0, 1, 1),))).sentence() == (
        "at program point 0 the buffer a (1) is live and takes 1 byte"
    )
