"""What a worker carries from one run to the next."""

from __future__ import annotations

from kilotune.experiments.comparison.running import forget_intermediate_results
from kilotune.spaces.reverse_split.bounds import chain_length
from kilotune.spaces.reverse_split.native import load_kernel


def test_a_run_finds_nothing_that_an_earlier_one_has_computed() -> None:
    chain_length(5, 0)
    load_kernel()
    assert chain_length.cache_info().currsize > 0
    forget_intermediate_results()
    assert chain_length.cache_info().currsize == 0
    assert load_kernel.cache_info().currsize == 1  # loading a library is no part of a search
