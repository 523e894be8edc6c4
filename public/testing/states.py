"""Checks of what a space asks: its members, its walks, its candidates as a study stores them."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys

from kilotune.search.candidates import count_candidates
from kilotune.search.encoding import encoding_of
from kilotune.search.space import Constraint, FlatSpace, Objective, Option
from kilotune.testing.fingerprints import computed_anew, computed_under_other_names
from kilotune.testing.probe import Probe

MEMBERS = ("name", "objectives", "constraints", "fingerprint", "start", "evaluate")

PRINT_FINGERPRINT = (
    "import sys; from kilotune.testing.fingerprints import computed_anew; "
    "print(computed_anew(sys.stdin.buffer.read()), end='')"
)

HASH_OF_CONTENT = "a hash of all that a measurement depends on, such as kilotune.fingerprint gives"

ADDRESS = " object at 0x"
"""What Python writes of an object whose class has no repr of its own."""

NO_OPTION: Option = "an option that no decision has"


MOST_TAKEN = 1000
"""Decisions of one walk at which `take` is tried."""


def check_members(probe: Probe) -> None:
    """A space has the members of `kilotune.Space`: a name, at least one objective, constraints, a fingerprint."""
    space = probe.space
    missing = [member for member in MEMBERS if not hasattr(space, member)]
    if missing:
        raise probe.error("members", expected=", ".join(MEMBERS), found=f"none called {missing[0]!r}")
    if not space.objectives or not all(isinstance(objective, Objective) for objective in space.objectives):
        raise probe.error("members", expected="at least one Objective", found=repr(space.objectives))
    if not all(isinstance(constraint, Constraint) for constraint in space.constraints):
        raise probe.error("members", expected="constraints of the class Constraint", found=repr(space.constraints))
    for member, value in (("name", space.name), ("fingerprint", space.fingerprint)):
        if not isinstance(value, str):
            raise probe.error("members", expected=f"a text as {member}", found=repr(value))


def check_picklable(probe: Probe) -> None:
    """A space can be sent to worker processes."""
    try:
        copy = pickle.loads(pickle.dumps(probe.space))
    except Exception as error:
        raise probe.error(
            "picklable", expected="a space that pickle can write and read", found=f"{type(error).__name__}: {error}"
        ) from error
    if copy.objectives != probe.space.objectives:
        raise probe.error("picklable", expected="a copy with the same objectives", found=repr(copy.objectives))


def check_fingerprint(probe: Probe) -> None:
    """A fingerprint says what is measured, not what classes are called: it is the same under other names, for a copy, and in
    another process with another hash seed, or no study would go on. Whether it covers all that a measurement depends on cannot be
    seen in one space: test that two spaces which measure different things have different ones."""
    fingerprint = probe.space.fingerprint
    if not fingerprint.strip():
        raise probe.error(
            "fingerprint", expected=HASH_OF_CONTENT, found=f"{fingerprint!r}, which every space could have"
        )
    if repr(probe.space) in fingerprint or ADDRESS in fingerprint:
        raise probe.error(
            "fingerprint",
            expected=HASH_OF_CONTENT,
            found=f"{fingerprint!r}, the repr of an object, which changes with the name of its class or its address",
        )
    sent = pickle.dumps(probe.space)
    try:
        renamed = computed_under_other_names(sent)
    except Exception as error:
        renamed = f"{type(error).__name__}: {error}"
    if renamed != fingerprint:
        raise probe.error(
            "fingerprint",
            expected=HASH_OF_CONTENT,
            found=f"{fingerprint!r}, which changes with the names of classes, to {renamed!r}",
        )
    copies = {"a copy": computed_anew(sent)}
    if type(probe.space).__module__ != "__main__":
        environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(
            [sys.executable, "-c", PRINT_FINGERPRINT], input=sent, env=environment, capture_output=True, check=False
        )
        if done.returncode:
            why = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise probe.error("picklable", expected="a space that another process can read", found="".join(why))
        copies["another process"] = done.stdout.decode()
    for where, other in copies.items():
        if other != fingerprint:
            raise probe.error("fingerprint", expected=f"{fingerprint!r} in {where} too", found=repr(other))


def check_take(probe: Probe) -> None:
    """Taking an option leaves the state as it was, and ValueError refuses what is no option."""
    state = probe.space.start()
    for _ in range(MOST_TAKEN):
        decision, answers = state.decision, dict(state.assignment)
        if decision is None or not decision.options:
            return
        try:
            state.take(NO_OPTION)
        except ValueError:
            pass
        else:
            raise probe.error(
                "take", expected=f"ValueError for {NO_OPTION!r} to {decision.name!r}", found="none", candidate=answers
            )
        following = state.take(decision.options[-1])
        if state.decision != decision or dict(state.assignment) != answers:
            raise probe.error(
                "take", expected="a state that take() leaves as it was", found="another one", candidate=answers
            )
        state = following


def check_walk(probe: Probe) -> None:
    """Every walk ends; decisions have options, JSON scalars and no two equal; the same answers lead to the same questions."""
    for walk in probe.walks:
        again = probe.space.start()
        for state, following in itertools.pairwise(walk):
            decision, repeated = state.decision, again.decision
            assert decision is not None
            at = state.assignment
            if repeated != decision:
                raise probe.error(
                    "walk", expected=f"{decision} again", found=f"{repeated} on a second walk", candidate=at
                )
            odd = [o for o in decision.options if type(o) not in (str, int, float, bool)]
            if odd:
                raise probe.error("walk", expected="options that JSON can hold", found=repr(odd[0]), candidate=at)
            if len(set(decision.options)) < len(decision.options):
                raise probe.error(
                    "walk",
                    expected=f"options of {decision.name!r} that differ",
                    found=repr(decision.options),
                    candidate=at,
                )
            again = again.take(following.assignment[decision.name])


def check_answers(probe: Probe) -> None:
    """An assignment holds the answers so far, in the order in which they were asked."""
    for walk in probe.walks:
        asked: list[str] = []
        for state in walk:
            if list(state.assignment) != asked:
                raise probe.error(
                    "answers",
                    expected=f"answers to {asked} in this order",
                    found=str(list(state.assignment)),
                    candidate=state.assignment,
                )
            if state.decision is not None:
                asked.append(state.decision.name)


def check_flat(probe: Probe) -> None:
    """A space with `decisions` asks exactly these, in their order, whatever the answers are."""
    if not isinstance(probe.space, FlatSpace):
        return
    for walk in probe.walks:
        asked = tuple(state.decision for state in walk[:-1])
        if asked != probe.space.decisions:
            raise probe.error(
                "flat",
                expected=f"the decisions {[d.name for d in probe.space.decisions]} as `decisions` has them",
                found=f"{[d.name for d in asked if d is not None]}",
                candidate=walk[-1].assignment,
            )


def check_size(probe: Probe) -> None:
    """Where the candidates can be counted, `size()` or the product of the options is how many there are."""
    size = count_candidates(probe.space)
    if size is not None and probe.enumerated is not None and size != len(probe.candidates):
        raise probe.error("size", expected=f"{len(probe.candidates)} candidates, by enumeration", found=str(size))


def check_storage(probe: Probe) -> None:
    """A candidate that was stored comes back as it was, its answers in the order in which they were asked."""
    encoding = encoding_of(probe.space)
    for candidate in probe.candidates:
        text = encoding.text(encoding.key(candidate))
        restored = encoding.candidate(encoding.key_of_text(text))
        if list(restored.items()) != list(candidate.items()):
            raise probe.error("storage", expected="the same candidate", found=str(restored), candidate=candidate)
