"""A space with its data at the front door, and what it may be able to do besides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.result import Result
from kilotune.search.space import Assignment, Metrics, Space, Trial

if TYPE_CHECKING:
    from kilotune.evaluators.device import Device
    from kilotune.evaluators.fixed_point.fewest_flips import FewestFlips
    from kilotune.evaluators.fixed_point.fresh_inputs import PairedFlips
    from kilotune.evaluators.on_device import DeviceMeasurement
    from kilotune.experiments.presentation.section import Section
    from kilotune.experiments.problems.device_check import DeviceCheck
    from kilotune.experiments.problems.placing import FinalistPlacing
    from kilotune.experiments.problems.program_profile import ProgramProfile


class Problem(Protocol):
    """A space with its data: what every space has. The classes below are what only some can do."""

    @property
    def request(self) -> TuneRequest:
        """What was asked."""

    @property
    def space(self) -> Space:
        """The decision problem."""

    @property
    def name(self) -> str:
        """The name of the model or the instance, for people."""

    @property
    def measured_by(self) -> str:
        """What runs the candidates."""

    def check_output(self, folder: Path) -> None:
        """ValueError when `export` would refuse that folder: to be known before a search, not after it."""

    def export(self, trial: Trial, folder: Path) -> dict[str, str]:
        """Write what a candidate is for into `folder`; the paths written, by what they are."""


@runtime_checkable
class Certifies(Protocol):
    """Ability: what a search has proved can be written down for `tune check`."""

    def bound_certificate(self, best: Trial | None, bound: float) -> str:
        """The file: the bound on the first objective and, where there is one, the best candidate. ValueError, a sentence, where this
        problem's bounds are of a kind that nobody checks."""


@runtime_checkable
class HasTestData(Protocol):
    """Ability: a candidate can be measured on data that no search sees."""

    def test_metrics(self, assignment: Assignment) -> Metrics | None:
        """None where there are no such data for this input."""


@runtime_checkable
class HoldsOutData(Protocol):
    """Ability: some of the training data may be held out of the search, for its finalists to be compared on."""

    def validation_metrics(self, candidates: Sequence[Assignment]) -> list[Metrics] | None:
        """The candidates there; None where nothing is held out."""


@runtime_checkable
class ComparesFlips(Protocol):
    """Ability: two candidates that classify can be compared on more inputs than a search measures them on."""

    def paired_flips(self, first: Trial, second: Trial) -> PairedFlips | None:
        """Whose class either changes; None where nothing is classified, and where that would take too long."""


@runtime_checkable
class RanksByFlips(Protocol):
    """Ability: of many candidates that classify it can be told which is likely to change the fewest classes of new inputs."""

    def fewest_flips(self, trials: Sequence[Trial]) -> FewestFlips | None:
        """Which of them, the most promising first; None where nothing is classified, and where that would take too long."""


@runtime_checkable
class FinishesFinalists(ComparesFlips, Protocol):
    """Ability: the best candidates of a search may be finished after it (`kilotune.search.space.HasFinish`), and compared."""

    @property
    def finishes_finalists(self) -> bool:
        """Whether that is asked for."""


@runtime_checkable
class TrainsDelivered(Protocol):
    """Ability: what is delivered may be trained with the labels once it is chosen, at no other cost than it has."""

    @property
    def trains_delivered(self) -> bool:
        """Whether that is asked for."""

    def trained(self, assignment: Assignment) -> Assignment:
        """The trained candidate of a candidate. Measuring it trains it, which takes from seconds to minutes."""

    def trained_within(self, assignment: Assignment, seconds: float) -> Assignment:
        """One whose training, and all that it is compared by, likely ends in so many seconds, in fewer steps than that of `trained` where
        it has to; the candidate itself where it has been trained in as many or more."""

    def is_trained(self, assignment: Assignment) -> bool:
        """Whether a candidate is a trained one."""

    def why_untrained(self, assignment: Assignment) -> str | None:
        """Why a candidate cannot be trained, as the end of a sentence; None where it can."""

    def paired_errors(self, first: Trial, second: Trial) -> PairedFlips | None:
        """To how many made-up inputs, which are samples with noise, either gives another class than the sample's label; None where no class
        is given, and where that would take too long."""

    def sample_errors(self, first: Trial, second: Trial) -> PairedFlips:
        """Likewise to how many training samples."""

    def unseen_errors(self, first: Trial, second: Trial) -> PairedFlips | None:
        """Likewise, where the second one, which is trained, is trained with other samples instead; None where it is not so right on the
        training samples that this is a question. Takes some further trainings."""


@runtime_checkable
class NarrowsMemory(TrainsDelivered, Protocol):
    """Ability: the most precise candidate within a limit on memory may be searched, where the least memory is asked for."""

    @property
    def request(self) -> TuneRequest:
        """What was asked."""

    @property
    def space(self) -> Space:
        """What is searched."""

    def within_memory(self, limit_bytes: int) -> Problem:
        """This problem, for the most precise program of at most so many bytes."""


@runtime_checkable
class CountsSamples(Protocol):
    """Ability: accuracies are shares of samples."""

    def sample_counts(self) -> dict[str, int]:
        """How many there are, by part of the data (`train`, `validation`, `test`)."""


@runtime_checkable
class LoadsTestData(Protocol):
    """Ability: the first `test_metrics` of a process loads for about a second, which nothing can end."""

    def is_loaded(self) -> bool:
        """Whether that is done."""


@runtime_checkable
class NamesTestFigures(Protocol):
    """Ability: it can be said what `test_metrics` would measure, where no time is left for it."""

    def test_figures(self) -> str | None:
        """The figures, a plural that begins a sentence; None where there are no data to measure them on."""


@runtime_checkable
class HasFloatBaseline(Protocol):
    """Ability: there is an exact model that the candidates approximate."""

    def float_metrics(self) -> dict[str, Metrics]:
        """The exact model, by part of the data (`train`, `test`)."""


@runtime_checkable
class LimitsProcedure(Protocol):
    """Ability: the space runs its paper's procedure within limits, or not at all for some inputs."""

    def procedure_limits(self) -> str | None:
        """These limits, a sentence; None where the procedure is run as in the paper."""


@runtime_checkable
class ExplainsBound(Protocol):
    """Ability: the space's own bound has a short proof."""

    def bound_reason(self) -> dict[str, Any]:
        """Why no candidate can beat the bound, as JSON; `sentence` says it without its full stop."""


@runtime_checkable
class RunsOnDevice(Protocol):
    """Ability: a candidate is a program that a device can run, where one was asked for."""

    @property
    def device(self) -> Device | None:
        """The device that was asked for."""

    def check_on_device(self, trial: Trial, levels: tuple[str, ...] = ()) -> DeviceCheck | None:
        """The trial's program on the device, at the request's level first; None without a device. DivergenceError when it
        computes something else there than the search measured."""

    def float_on_device(self) -> DeviceMeasurement | None:
        """The exact model on the device; None without one or its tools, and where it has no room for it."""


@runtime_checkable
class ChoosesBuild(RunsOnDevice, Protocol):
    """Ability: it may be left open how programs are built for the device, so that of each the best build is taken."""

    @property
    def chooses_build(self) -> bool:
        """Whether it was left open, and there is a device."""

    def built(self, level: str, shape: str) -> Problem:
        """This problem, with programs of that -O level (such as `Os`) and code shape (`codegen.emit.shape`)."""


@runtime_checkable
class LimitsLinkedFlash(Protocol):
    """Ability: the flash of a whole program, as it is linked for the device, may have a limit."""

    @property
    def linked_limit_bytes(self) -> int | None:
        """The limit; None without one."""

    def linked_bytes(self, trial: Trial) -> int:
        """What the trial's whole program takes. DeviceError when it cannot be linked."""


@runtime_checkable
class NarrowsLinkedFlash(LimitsLinkedFlash, Protocol):
    """Ability: the same may be searched within another such limit."""

    @property
    def may_limit_linked(self) -> bool:
        """Whether what is searched takes such a limit."""

    def within_linked(self, limit_bytes: int) -> Problem:
        """This problem, with whole programs of at most so many bytes."""


@runtime_checkable
class PlacesFinalists(Protocol):
    """Ability: candidates are hardware, which synthesis, place and route measure once the search is over."""

    @property
    def only_placing_tells(self) -> bool:
        """Whether no candidate can be used before it has been placed."""

    @property
    def places_beyond_budget(self) -> bool:
        """Whether it was asked for, and takes what time it needs; else it ends with the budget."""

    def with_places(self, most: int) -> Problem:
        """This problem, with up to so many candidates tried however long that takes; 0: none."""

    def knowing(self, placing: FinalistPlacing) -> Problem:
        """This problem, which exports the candidates of `placing` with what was found of them, whatever the cache has."""

    @property
    def most_placed(self) -> int:
        """How many candidates are tried; 0: none."""

    def place(self, finalists: Iterable[Trial], new_number: int | None = None) -> Iterator[FinalistPlacing]:
        """Try them in order until one can be used: what has been found, before the first and after each. Others may be tried where none
        of them can; these are trials from the number `new_number` on, and there are none without."""


@runtime_checkable
class HasTargets(Protocol):
    """Ability: a candidate is a program that can be written for several targets."""

    @property
    def usual_target(self) -> str:
        """The one that `tune export` writes where none is asked for."""

    def export_for(self, trial: Trial, folder: Path, target: str, level: str | None) -> dict[str, str]:
        """Like `Problem.export`; `level`: -O level on the device, None for the request's."""


@runtime_checkable
class ProfilesPrograms(Protocol):
    """Ability: of a candidate's program it is known what each of its layers takes."""

    def layer_profile(self, trial: Trial, level: str | None, measured: bool = True) -> ProgramProfile:
        """Cycles, RAM and flash by layer; `level`: -O level on the device, None for the request's; `measured`: run there, too."""

    def knowing_run(self, check: DeviceCheck | None) -> Problem:
        """This problem, whose exports of a candidate state what the device made of it."""


@runtime_checkable
class HasShapes(Protocol):
    """Ability: the inner loops of its programs can be written in several ways."""

    def shaped(self, shape: str) -> Problem:
        """This problem, with programs of that shape (`codegen.emit.shape`)."""


@runtime_checkable
class Explains(Protocol):
    """Ability: what a candidate means is short enough to be shown."""

    def details(self, trial: Trial) -> dict[str, Any]:
        """For the result file, as JSON."""

    def lines(self, trial: Trial) -> list[str]:
        """For the terminal."""


@runtime_checkable
class DescribesBest(Protocol):
    """Ability: a report shows the best candidate otherwise than by the text of what is exported."""

    def best_section(self, trial: Trial) -> Section:
        """The candidate in tables. The trial has been measured."""


@runtime_checkable
class ApproximatesInput(Protocol):
    """Ability: what all candidates compute is made from the input with a loss, the same for all of them."""

    @property
    def can_be_compared(self) -> bool:
        """Whether anything can be computed of either."""

    def approximations(self) -> Iterator[dict[str, Any]]:
        """The loss, as JSON; `sentence` says it without its full stop. First by little of the data, which takes a moment, then by more, and
        last by all. Nothing where nothing can be computed."""


class CapacityAnswer(Protocol):
    """Whether everything fits a capacity, with the proof."""

    def sentence(self) -> str:
        """For the terminal."""

    def as_json(self) -> dict[str, Any]:
        """For the result file."""


@runtime_checkable
class AnswersCapacity(Protocol):
    """Ability: whether everything fits a capacity may be what was asked."""

    def capacity_answer(self, result: Result) -> CapacityAnswer | None:
        """By what a study has found; None where no capacity was given."""


def metrics_on_test_data(problem: Problem, assignment: Assignment) -> Metrics | None:
    """A candidate on data that no search sees; None where there are none."""
    return problem.test_metrics(assignment) if isinstance(problem, HasTestData) else None


def float_metrics_of(problem: Problem) -> dict[str, Metrics]:
    """The exact model, by part of the data; empty where there is none."""
    return problem.float_metrics() if isinstance(problem, HasFloatBaseline) else {}


def bound_reason_of(problem: Problem) -> dict[str, Any] | None:
    """Why no candidate can beat the space's own bound, as JSON; None where that has no short proof."""
    return problem.bound_reason() if isinstance(problem, ExplainsBound) else None


def device_of(problem: Problem) -> Device | None:
    """The device that the programs are for; None without one."""
    return problem.device if isinstance(problem, RunsOnDevice) else None


def in_shape(problem: Problem, shape: str | None) -> Problem:
    """The problem with programs of a shape; itself where none is asked for. ValueError where there are no programs."""
    if shape is None:
        return problem
    if not isinstance(problem, HasShapes):
        raise ValueError(f"A code shape is for programs; the space {problem.request.space} decides about none.")
    return problem.shaped(shape)


def export_trial(
    problem: Problem, trial: Trial, folder: Path, target: str | None = None, level: str | None = None
) -> dict[str, str]:
    """Write what a candidate is for; a program for `target`, the usual one without. ValueError for a target where there is no
    program, and for a folder that holds something else."""
    if isinstance(problem, HasTargets):
        return problem.export_for(trial, folder, target or problem.usual_target, level)
    if target or level:
        raise ValueError(
            f"A target and a level are for programs; the space {problem.request.space} decides about none."
        )
    return problem.export(trial, folder)
