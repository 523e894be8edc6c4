"""How many samples run a whole program before the next ones start, in the compiled kernel.

In a larger block a step is begun less often, which is much of what a program of small arrays takes; in a smaller one the values stay in
nearer levels of cache, and fewer samples are computed that nobody reads.
"""

from __future__ import annotations

LANES = 64
"""Samples of a block that any program can have."""

MANY_LANES = 128
"""Samples of a block of programs that have few values."""

MOST_CACHED_BYTES = 512 << 10
"""What a program's values take in a block of many samples at most: half of a usual second level of cache."""

MOST_LOST = 0.1
"""The share of samples that nobody reads, beside those of smaller blocks, from which on these are as fast."""

WORTH_RACING = 20_000_000
"""Products and other elements, on all samples, of a candidate that its neighbours do not share, from which on it costs less to look at
it now and then than is saved."""

WORTH_COUNTING = 500_000
"""As many from which on it costs less than is saved to say how many labels a candidate may have wrong before it is out
(`label_limits`)."""


def lanes_of_block(samples: int, values: int, value_bytes: int, work: int, most_lanes: int) -> int:
    """How many samples a block has. `values`: of the input and the temporaries, for a sample; `work`: products and other elements of a
    sample; `most_lanes`: what the kernel can have at once in registers.

    Candidates that may be raced keep small blocks: after which samples they are looked at, and so which of them are out, depends on them.
    """
    if (
        most_lanes < MANY_LANES
        or values * value_bytes * MANY_LANES > MOST_CACHED_BYTES
        or samples * work >= WORTH_RACING
    ):
        return LANES
    return MANY_LANES if filled(samples, MANY_LANES) <= (1 + MOST_LOST) * filled(samples, LANES) else LANES


def filled(samples: int, lanes: int) -> int:
    """The samples of all blocks, the last one filled up."""
    return -(-samples // lanes) * lanes
