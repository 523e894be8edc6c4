"""In which order the paper's procedure measures, where a limit may be all that there is time for."""

from __future__ import annotations

from collections.abc import Generator

from kilotune.codegen.ir import Role
from kilotune.search.procedure import run_procedure, trials_of
from kilotune.search.space import Assignment, Constraint, Option, Trial
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.procedure import explore_scale_for_x, partial_demote
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.spaces.small_network import small_network


class Limited(ShiftrySpace):
    """With a limit of flash that nothing breaks."""

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return (*super().constraints, Constraint("flash_bytes", 1e9))


Ranked = list[tuple[float, str, Option]]


def demoted(space: ShiftrySpace) -> tuple[list[str], Ranked]:
    """The variables as they are demoted alone, and what becomes of the measurements."""
    start = {decision.name: decision.options[0] for decision in space.decisions}

    def stages() -> Generator[list[Assignment], list[Trial], Ranked]:
        first = yield from explore_scale_for_x(space, start)
        return (yield from partial_demote(space, first))

    names, search = list[str](), trials_of(stages(), space.evaluate)
    while True:
        try:
            trials = next(search)
        except StopIteration as end:
            return list(dict.fromkeys(names)), end.value
        changed = {name for name, option in trials[0].assignment.items() if option != start[name]}
        names += sorted(changed)


def test_the_largest_parameters_are_measured_first_under_a_limit_of_flash() -> None:
    task = small_network()
    plain, limited = (kind(task, ShiftryOptions()) for kind in (ShiftrySpace, Limited))
    (names, ranked), (ordered, same) = demoted(plain), demoted(limited)
    sizes = {v.name: v.size for v in task.program.variables if v.role is Role.PARAMETER}
    met = [name for name in ordered if name in sizes]
    assert met == sorted(met, key=lambda name: -sizes[name])
    assert [name for name in names if name in sizes] != met, "the program has its parameters in another order"
    assert same == ranked
    answers = run_procedure(plain), run_procedure(limited)
    assert answers[0] is not None
    assert answers[1] is not None
    assert answers[0].assignment == answers[1].assignment
