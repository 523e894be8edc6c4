"""Fronts and incumbents against brute force."""

import math

from hypothesis import given
from hypothesis import strategies as st

from kilotune.search.front import Front, Ranking
from kilotune.search.space import Constraint, Direction, Measurement, Objective, Trial

RANKING = Ranking(
    (Objective("a"), Objective("b", Direction.MAXIMIZE), Objective("c")),
    (Constraint("flash", 4), Constraint("speed", 2, at_least=True)),
)

small = st.integers(0, 4).map(float)
metrics = st.fixed_dictionaries({"a": small, "b": small, "c": small, "flash": st.integers(0, 6), "speed": small})
measurements = st.one_of(
    st.builds(Measurement, metrics),
    st.just(Measurement(failure="it broke")),
    st.just(Measurement({"a": 0.0, "flash": 0.0, "speed": 9.0})),
    st.just(Measurement({"a": math.nan, "b": 4.0, "c": 0.0, "flash": 0.0, "speed": 9.0})),
)


def is_feasible(measurement: Measurement) -> bool:
    m = measurement.metrics
    complete = all(k in m and not math.isnan(m[k]) for k in ("a", "b", "c", "flash", "speed"))
    return measurement.failure is None and complete and m["flash"] <= 4 and m["speed"] >= 2


def losses(measurement: Measurement) -> tuple[float, float, float]:
    return measurement.metrics["a"], -measurement.metrics["b"], measurement.metrics["c"]


@given(st.lists(measurements, max_size=30).flatmap(lambda ms: st.tuples(st.just(ms), st.permutations(range(len(ms))))))
def test_front_is_the_set_of_non_dominated_feasible_trials_in_any_order_of_arrival(
    case: tuple[list[Measurement], list[int]],
) -> None:
    found, order = case
    trials = [Trial(i, {"x": i}, m) for i, m in enumerate(found)]
    front = Front(RANKING)
    for i in order:
        front.add(trials[i])

    feasible = [t for t in trials if is_feasible(t.measurement)]
    expected = set()
    for trial in feasible:
        mine = losses(trial.measurement)
        others = [(losses(t.measurement), t.number) for t in feasible]
        dominated = any(all(x <= y for x, y in zip(o, mine, strict=True)) and o != mine for o, _ in others)
        if not dominated and trial.number == min(n for o, n in others if o == mine):
            expected.add(trial.number)
    assert {t.number for t in front.trials} == expected

    if feasible:
        best = min(feasible, key=lambda t: (losses(t.measurement), t.number))
        assert front.feasible
        assert front.best == best
    elif trials:
        assert not front.feasible
        ranks = [(RANKING.rank(t.measurement), t.number) for t in trials]
        assert front.best is not None
        assert front.best.number == min(ranks)[1]
    else:
        assert front.best is None


@given(st.lists(measurements, max_size=20))
def test_the_losses_of_a_front_are_those_of_its_trials_whenever_they_are_asked(found: list[Measurement]) -> None:
    front = Front(RANKING)
    for number, measurement in enumerate(found):
        front.add(Trial(number, {}, measurement))
        assert front.losses == tuple(losses(trial.measurement) for trial in front.trials)


def test_the_nearest_candidate_is_the_one_that_exceeds_its_limits_by_the_smallest_share() -> None:
    ranking = Ranking((Objective("a"),), (Constraint("flash", 1000), Constraint("accuracy", 0.9, at_least=True)))
    front = Front(ranking)
    front.add(Trial(0, {}, Measurement({"a": 1, "flash": 1000, "accuracy": 0.45})))  # half of its accuracy is missing
    front.add(Trial(1, {}, Measurement({"a": 9, "flash": 1100, "accuracy": 0.95})))  # a tenth too much flash
    front.add(Trial(2, {}, Measurement(failure="it broke")))
    assert front.best is not None
    assert front.best.number == 1
    assert not front.feasible
    assert front.trials == ()


@given(st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from([math.nan, math.inf, -1.5, 0.0, 2])))
def test_losses_are_those_of_the_objectives_one_by_one(metrics: dict[str, float]) -> None:
    objectives = (Objective("a"), Objective("b", Direction.MAXIMIZE))
    for measurement in (Measurement(metrics), Measurement(metrics, "failed")):
        expected = [math.inf if measurement.failure else one.loss(measurement.metrics) for one in objectives]
        assert Ranking(objectives).losses(measurement) == tuple(expected)


@given(
    st.dictionaries(st.sampled_from(["flash", "speed"]), st.sampled_from([math.nan, math.inf, -1.5, 0.0, 2, 5.0])),
    st.lists(
        st.builds(Constraint, st.sampled_from(["flash", "speed"]), st.sampled_from([0, -2.0, 0.5, 4]), st.booleans())
    ),
)
def test_a_violation_is_the_sum_of_the_constraints_shares(metrics: dict[str, float], limits: list[Constraint]) -> None:
    ranking = Ranking((Objective("flash"),), tuple(limits))
    shares = [limit.violation(metrics) / (abs(limit.limit) or 1.0) for limit in limits]
    assert ranking.violation(Measurement(metrics)) == sum(shares)
    assert ranking.violation(Measurement(metrics, "failed")) == math.inf
