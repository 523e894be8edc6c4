"""What became of a budget: how much of it was used, when the best was found and proved, and what the last of it bought."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.metric_names import metric_label
from kilotune.search.budget import Budget
from kilotune.search.result import Course, Result, Status
from kilotune.search.space import Direction, Objective, Trial

LAST_SHARE = 0.1
WORTH_SAYING_S = 1.0
"""A shorter replay is not mentioned."""


def usage_sentence(result: Result, objectives: Sequence[Objective], asked: Budget, used_s: float) -> str:
    """`Used 24.1 of 60 s: ...`. `asked`: the command's budget; `used_s`: until the search ended, without the replay of a study that is
    gone on with. All seconds in it are the command's, from its beginning, as the budget's are, as if there had been no replay, and the
    last tenth is of the search's own; a replay of a second or more is said besides, and so is what passed before the search began. What
    it calls the best is the search's: where another trial is the result's, chosen after the search, it says so. Empty without a run."""
    if result.course is None:
        return ""
    course = _of_the_command(result.course, used_s)
    parts = []
    if course.proved_s is not None:
        parts.append(
            f"proved {extreme(objectives[0])} {metric_label(objectives[0].metric)} after {course.proved_s:.1f} s"
        )
    parts.append(_last_share(course, used_s - LAST_SHARE * result.course.seconds, objectives, result.best))
    if course.improvements and course.improvements[0][0] > asked.seconds and result.evaluations == course.trials:
        parts.append("there was none within the budget, and a search goes on for a first one")
    if result.status is Status.SETTLED:
        parts.append("so it ended (--stop never goes on to the end of the budget)")
    text, replay_s = "; ".join(parts), result.course.replay_s
    begun_s = used_s - result.course.seconds
    earlier = [
        *([f"after {replay_s:.1f} s of going through what was known"] if replay_s >= WORTH_SAYING_S else []),
        *([f"the search began after {begun_s:.1f} s"] if begun_s >= WORTH_SAYING_S else []),
    ]
    before = f" ({'; '.join(earlier)})" if earlier else ""
    return f"Used {_share(course, asked, used_s)}{before}: {text}."


def going_on_for(objectives: Sequence[Objective]) -> str:
    """What a search still looks for once the first objective is proved: `disagreements, 8-bit variables`."""
    return ", ".join(metric_label(objective.metric) for objective in objectives[1:])


def extreme(objective: Objective) -> str:
    """The better end of it."""
    return "least" if objective.direction is Direction.MINIMIZE else "greatest"


def _of_the_command(course: Course, used_s: float) -> Course:
    """The course with its seconds counted from when the command began, and not its search."""
    begun_s = used_s - course.seconds
    return dataclasses.replace(
        course,
        seconds=used_s,
        proved_s=None if course.proved_s is None else begun_s + course.proved_s,
        improvements=tuple((begun_s + found_s, trial) for found_s, trial in course.improvements),
    )


def _share(course: Course, asked: Budget, used_s: float) -> str:
    if math.isfinite(asked.trials):
        trials = f"{course.trials} of {counted(asked.trials, 'trial')}"
        return trials if math.isinf(asked.seconds) else f"{trials} and {used_s:.1f} of {asked.seconds:g} s"
    return f"{used_s:.1f} s" if math.isinf(asked.seconds) else f"{used_s:.1f} of {asked.seconds:g} s"


def _last_share(course: Course, begins_s: float, objectives: Sequence[Objective], shown: Trial | None) -> str:
    """What the last tenth of the search brought, which began after `begins_s`."""
    if not course.improvements:
        return "nothing was found" if shown is None else "nothing better than what was known"
    since_s, best = course.improvements[-1]
    earlier = [trial for found_s, trial in course.improvements if found_s <= begins_s]
    found, chosen = f"the best came after {since_s:.1f} s", ""
    if shown is not None and shown.number != best.number:
        found = f"the search's own best, trial {best.number}, came after {since_s:.1f} s"
        chosen = f" (trial {shown.number}, which is shown, was chosen after the search)"
    if since_s <= begins_s:
        return f"{found}, the last tenth of the search brought nothing{chosen}"
    change = f", which brought {_change(earlier[-1], best, objectives)}" if earlier else ""
    return f"{found}, in the last tenth of the search{change}{chosen}"


def _change(before: Trial, after: Trial, objectives: Sequence[Objective]) -> str:
    for objective in objectives:
        old, new = before.metrics.get(objective.metric), after.metrics.get(objective.metric)
        if old != new and old is not None and new is not None:
            if (new < old) == (objective.direction is Direction.MINIMIZE):
                return f"{metric_label(objective.metric)} {old:.6g} -> {new:.6g}"
            break  # what came before was better, and broke a limit
    return "a candidate that keeps more of the limits"
