"""The space's own figures: the computation graph of the filter, its registers, its weights, and what it may cost."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import cast

from kilotune.codegen.scamp.program import ScampProgram
from kilotune.codegen.scamp.text import parse_program
from kilotune.experiments.presentation.section import Figure, Paragraph, Row, Section
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.paper_trials import ProcedureKey
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.problems.reverse_split.figures.program_figures import graph_figure, registers_figure
from kilotune.experiments.problems.reverse_split.figures.split_figures import (
    FRONT_AXES,
    front_figure,
    has,
    kernels_figure,
)
from kilotune.experiments.problems.reverse_split.figures.stage_figures import stages_section
from kilotune.experiments.problems.reverse_split.figures.value_graph import ValueGraph, value_graph
from kilotune.experiments.problems.reverse_split.problem import KernelProblem, KernelSpace
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Option, Trial
from kilotune.search.study import Study
from kilotune.search.telling_trials import told_trials

MOST_DRAWN = 400
"""Instructions; a longer program is no picture."""


def draw(problem: Problem, study: Study) -> tuple[Section, ...]:
    """See `problems.drawing.Drawing`."""
    kernels = cast(KernelProblem, problem)
    weights = Section("Weights of the filter", (_weights(kernels, study.result().best),))
    return (*_program(kernels, study), weights, _search(kernels, study), *_stages(kernels, study))


def _program(problem: KernelProblem, study: Study) -> tuple[Section, ...]:
    best = study.result().best
    title = "Computation graph of the filter"
    if best is None or best.measurement.failure is not None:
        why = "" if best is None or best.measurement.failure is None else f" {best.measurement.failure}"
        return (Section(title, (Paragraph(f"No candidate has a program yet, so there is no graph.{why}"),)),)
    try:
        text = _text(ProcedureKey.of(problem.space), tuple(best.assignment.items()))
    except ValueError as error:  # a machine with a C compiler may have found it, and this one has none
        return (Section(title, (Paragraph(f"The best candidate's program cannot be made again here: {error}"),)),)
    program = parse_program(text)
    if program.instructions > MOST_DRAWN:
        size = f"The best program has {program.instructions} instructions, too many for a picture."
        return (Section(title, (Paragraph(size),)),)
    graph = value_graph(program)
    graphs = [Figure(graph_figure(graph), graph_words(program, graph, best), "Computation graph of the best program")]
    lives = [
        Figure(
            registers_figure(program, graph), registers_words(program, graph, problem), "Registers of the best program"
        )
    ]
    paper = _papers_program(problem.space)
    if paper is not None and paper != program:
        others = value_graph(paper)
        size = f"{counted(paper.instructions, 'instruction')} and {counted(paper.bus_transfers, 'bus transfer')}"
        words = f"The same of the paper's heuristic (AUKE): {size}."
        graphs.append(Figure(graph_figure(others), words, "Computation graph of the paper's program"))
        most = f"{counted(len(paper.registers), 'register')}, at most {others.most_alive} with needed values at once"
        words = f"The same of the paper's heuristic: {most}."
        lives.append(Figure(registers_figure(paper, others), words, "Registers of the paper's program"))
    return (Section(title, (Row(tuple(graphs)),)), Section("Registers", (Row(tuple(lives)),)))


def _stages(problem: KernelProblem, study: Study) -> tuple[Section, ...]:
    """The images on the way, where there is a program that is short enough."""
    best = study.result().best
    if best is None or best.measurement.failure is not None:
        return ()
    try:
        text = _text(ProcedureKey.of(problem.space), tuple(best.assignment.items()))
    except ValueError:
        return ()
    section = stages_section(parse_program(text), problem.measured)
    return () if section is None else (section,)


def _papers_program(space: KernelSpace) -> ScampProgram | None:
    """None where the heuristic finds none, and where it is too long for a picture."""
    trial = paper_trial(space)
    if trial is None or trial.measurement.failure is not None:
        return None
    program = parse_program(_text(ProcedureKey.of(space), tuple(trial.assignment.items())))
    return program if program.instructions <= MOST_DRAWN else None


def graph_words(program: ScampProgram, graph: ValueGraph, best: Trial) -> str:
    """What the graph of a program shows."""
    of_op = Counter(operation.op for operation in program.operations)
    ops = ", ".join(f"{count} {op}" for op, count in of_op.most_common())
    shifted = sum(operand.shifted for operand in graph.operands)
    times = zip(program.results, program.reading_times, strict=True)
    early = " after instruction {}" if program.read_after else ""
    results = ", ".join(f"kernel {k} in {name}{early.format(when)}" for k, (name, when) in enumerate(times, start=1))
    return (
        f"The best program, trial {best.number}: {counted(program.instructions, 'instruction')}"
        f"{f' ({ops})' if ops else ''} and {counted(program.bus_transfers, 'bus transfer')} for {program.target}. "
        f"The image is at the top, every other mark is an instruction with its number, its operation and the register that it "
        f"writes; results, ringed, are at the bottom: {results}. A line is a value that an instruction reads: "
        f"{len(graph.operands)} in all, {shifted} of them, dashed, from a neighbour in the direction written; a minus sign is "
        "where it is subtracted. Hover for the weights of the pixels that a value adds up."
    )


def registers_words(program: ScampProgram, graph: ValueGraph, problem: KernelProblem) -> str:
    """Which registers are used, and how long."""
    longest = max(graph.lives, key=lambda life: life.last - life.first)
    what = "the image" if not longest.node else f"the value of instruction {longest.node}"
    lost = f" Crosses are registers that a division destroys: {len(graph.lost)} in all." if graph.lost else ""
    return (
        f"Time goes down, instruction by instruction. A bar is as long as its register holds a value that is still needed. "
        f"The program uses {counted(len(program.registers), 'register')} ({', '.join(program.registers)}) of "
        f"{problem.space.problem.registers}; at most {graph.most_alive} hold needed values at once. Register "
        f"{longest.register} holds {what} longest, over {counted(longest.last - longest.first, 'instruction')}.{lost}"
    )


def _weights(problem: KernelProblem, best: Trial | None) -> Figure:
    wanted = problem.wanted if best is None else problem.made(best)
    kernels = problem.kernels.kernels
    sizes = ", ".join(dict.fromkeys(f"{kernel.rows} x {kernel.columns}" for kernel in kernels))
    what = "What is asked for, above, and what is computed" if wanted.largest_error else "What is computed"
    words = f"{what}: {counted(len(kernels), 'kernel')} of {sizes}, north above. {problem.approximation_sentences(wanted)[-1]}"
    return Figure(kernels_figure(kernels, wanted), words)


def _search(problem: KernelProblem, study: Study) -> Section:
    result, trials, space = study.result(), told_trials(study), problem.space
    metric = space.objectives[0].metric
    title = metric.replace("_", " ")
    paper = paper_trial(space)
    length = None if paper is None else paper.measurement.metrics.get(metric)
    failed = sum(trial.measurement.failure is not None for trial in trials)
    axes = FRONT_AXES.get(space.objectives[-1].metric)
    heading = "Length of the program" if axes is None else f"The front of {axes[0].name} and {axes[1].name}"
    if not any(has(trial, metric) for trial in trials):
        return Section(heading, (Paragraph(f"None of {counted(len(trials), 'trial')} has a program."),))
    best = cast(Trial, result.best).measurement.metrics
    sentences = [f"{counted(len(trials), 'trial')}{f', {failed} of them without a program' if failed else ''}."]
    sentences.append(f"The best program takes {best[metric]:g} {title}.")
    if length is not None:
        sentences.append(f"The paper's heuristic (AUKE) takes {length:g}.")
    else:
        sentences.append("The paper's heuristic (AUKE) finds no program that the registers hold.")
    if result.bound is not None:
        optimal = ", so none is better" if result.proved else ""
        sentences.append(f"No program takes less than {result.bound:g} {title}{optimal}.")
    if axes is None:
        return Section(heading, (Paragraph(" ".join(sentences)),))  # its course is drawn for every space
    ends = [trial.measurement.metrics for trial in result.front]
    if ends:
        sentences.append(
            f"The front has {counted(len(ends), 'program')}, from {axes[0].told(ends[0])} and {axes[1].told(ends[0])} to "
            f"{axes[0].told(ends[-1])} and {axes[1].told(ends[-1])}."
        )
    return Section(
        heading, (Figure(front_figure(trials, result.front, paper, result.bound, axes), " ".join(sentences)),)
    )


def paper_trial(space: KernelSpace) -> Trial | None:
    """What the paper's heuristic reaches; some tenths of a second, once."""
    return _paper_trial(ProcedureKey.of(space))


@lru_cache(maxsize=16)
def _paper_trial(asked: ProcedureKey[KernelSpace]) -> Trial | None:
    return run_procedure(asked.space)


@lru_cache(maxsize=64)
def _text(asked: ProcedureKey[KernelSpace], assignment: tuple[tuple[str, Option], ...]) -> str:
    """The text of a candidate's program, computed once: relaxing a long one takes a second."""
    return asked.space.program(dict(assignment)).text
