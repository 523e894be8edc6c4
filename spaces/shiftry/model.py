"""Bitwidths and scales as a CP-SAT model: memory exactly, precision by a surrogate.

One Boolean an option. Flash is linear in them, RAM is at least the sum of live bytes at every program point, and the
exponential tables are charged once whoever uses them. Where these sums promise what cannot be placed, the offsets join
the model (`spaces.shiftry.placing`): widths and placement are solved together. Without limits, memory is minimised; its
optimum over what has not been tried is a bound that no measurement can refute. Precision steers among candidates by the
fitted surrogate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from kilotune.codegen import ir
from kilotune.codegen.emit.unpacking_size import CODE_BYTES, Pieces, UnpackingSize
from kilotune.codegen.fixed.encoding import LAYOUTS
from kilotune.codegen.fixed.exponential import SHIFTRY_INPUT_SCALE, Exponential, shiftry_exponential
from kilotune.codegen.interference import LABEL_BYTES, Meeting
from kilotune.codegen.placement import shared_bytes
from kilotune.evaluators.constraint_solver import SolverClock, least_whole
from kilotune.search.space import Assignment, ModelAnswer, SolveLimit, Trial
from kilotune.spaces.shiftry.candidates import ShiftryCandidates
from kilotune.spaces.shiftry.formats import WIDE_BITS, parse_format
from kilotune.spaces.shiftry.placement_model import Width, add_placement
from kilotune.spaces.shiftry.surrogate import Surrogate, fit_surrogate

COST_UNITS = 1000
"""Surrogate costs are rounded to thousandths: CP-SAT wants integers."""

GOLDEN = (math.sqrt(5) - 1) / 2
"""Multiples of it, less whole numbers, spread evenly however many there are."""

FLIPS_UNIT = 0.1
"""Expected flips that the surrogate's logarithm begins to tell apart."""

Solve = Callable[[cp_model.CpModel], Any]
"""The status of a model."""


class ShiftryModel:
    """The model for the trials so far."""

    def __init__(self, space: ShiftryCandidates, trials: Sequence[Trial]) -> None:
        unit = FLIPS_UNIT if space.classifies else max(space.options.permitted_loss / 100, 1e-9)
        self._space = space
        self._surrogate = fit_surrogate(space.decisions, trials, space.precision_metric, unit)
        self._permitted = math.log1p(_permitted_loss(space) / unit)

    def solve(self, count: int, excluded: Sequence[Assignment], seed: int, limit: SolveLimit) -> ModelAnswer:
        """Up to `count` candidates, the most promising first; see `search.space.CandidateModel`."""
        encoding = _Encoding(self._space, self._surrogate, limited=True)
        for assignment in excluded:
            encoding.forbid(assignment)
        solver = cp_model.CpSolver()
        solver.parameters.random_seed = seed % (1 << 31)
        clock, most_work = SolverClock(limit.work, limit.seconds, limit.clock), limit.work / (count + 2)

        def solve(model: cp_model.CpModel) -> Any:
            return clock.solve(solver, model, most_work)

        bound = self._least_memory(encoding, solver, solve) if self._space.options.memory_leads else -math.inf
        if bound == math.inf:
            return ModelAnswer((), bound, exhausted=True)
        candidates: list[Assignment] = []
        status = cp_model.UNKNOWN
        if not self._space.options.front:
            self._aim(encoding)
        while len(candidates) < count:
            if self._space.options.front:
                self._aim_at_front(encoding, seed * count + len(candidates))
            status = solve(encoding.model)
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                break
            found = encoding.read(solver)
            if not encoding.places and self._overflows(found):
                encoding.place(self._space)
                continue
            candidates.append(found)
            encoding.forbid(candidates[-1])
        exhausted = not candidates and status == cp_model.INFEASIBLE
        if exhausted and not excluded:
            return ModelAnswer((self._smallest(solver, solve),), bound, exhausted=True)
        return ModelAnswer(tuple(candidates), bound, exhausted)

    def _smallest(self, solver: cp_model.CpSolver, solve: Solve) -> Assignment:
        """The candidate of least memory, limits aside: the nearest one where nothing meets them."""
        encoding = _Encoding(self._space, self._surrogate, limited=False)
        encoding.model.minimize(encoding.memory_bytes * (encoding.largest_cost + 1) + encoding.cost)
        if solve(encoding.model) in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return encoding.read(solver)
        return {
            d.name: d.options[-1] for d in self._space.decisions
        }  # no time to find it: the fewest bits everywhere are near

    def _overflows(self, assignment: Assignment) -> bool:
        """Whether the sums hold the RAM limit and the placement does not."""
        limit = self._space.options.ram_limit_bytes
        return limit is not None and self._space.placed(assignment).peak_bytes > limit

    def _least_memory(self, encoding: _Encoding, solver: cp_model.CpSolver, solve: Solve) -> float:
        """A bound on the memory of every candidate that is left; +inf when there is none."""
        encoding.model.minimize(encoding.memory_bytes)
        status = solve(encoding.model)
        if status == cp_model.INFEASIBLE:
            return math.inf
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            placed = self._space.placed(encoding.read(solver))
            if placed.peak_bytes > placed.bound_bytes:  # the sums promise what no placement found keeps
                encoding.place(self._space)
                before = solver.best_objective_bound
                status = solve(encoding.model)
                if status == cp_model.INFEASIBLE:
                    return math.inf
                return float(least_whole(max(before, solver.best_objective_bound)))
        return float(least_whole(solver.best_objective_bound))

    def _aim(self, encoding: _Encoding) -> None:
        """With limits: the least predicted loss, then memory. Without: memory of what is predicted to be precise enough, then loss."""
        weight = encoding.largest_cost + 1
        if self._space.options.precision_leads:
            encoding.model.minimize(encoding.cost * encoding.memory_span + encoding.memory_bytes)
            return
        excess = encoding.excess_over(round((self._permitted - self._surrogate.offset) * COST_UNITS))
        encoding.model.minimize(encoding.memory_bytes * weight + encoding.cost + excess * weight * encoding.memory_span)

    def _aim_at_front(self, encoding: _Encoding, number: int) -> None:
        """The least predicted loss within budgets, which lie elsewhere along the front for each number; then memory."""
        over = encoding.over_budgets(self._budgets(number)) * (encoding.largest_cost + 1)
        encoding.model.minimize((over + encoding.cost) * encoding.memory_span + encoding.memory_bytes)

    def _budgets(self, number: int) -> dict[str, int]:
        """Bytes by metric of a front: from the fewest that are possible to those of the first options, mostly few."""
        space = self._space
        most = space.costs([{decision.name: decision.options[0] for decision in space.decisions}])[0]
        bits = space.smallest_bits({})
        flash = float(space.evaluator.footprint.flash_bytes(bits)[0]) + space.least_table_bytes
        ram = float(space.evaluator.footprint.least_ram_bytes(bits)[0])
        least = {"flash_bytes": flash, "ram_bytes": ram, "memory_bytes": flash + ram}
        found = {}
        for place, metric in enumerate(metric for metric in space.options.fronted if metric in least):
            share = (number * GOLDEN ** (place + 1)) % 1.0
            found[metric] = round(least[metric] + max(0.0, most[metric] - least[metric]) * share**2)
        return found


def _permitted_loss(space: ShiftryCandidates) -> float:
    """The largest loss that surely keeps the constraint: every flip may cost one right answer."""
    if not space.classifies:
        return space.options.permitted_loss
    return space.options.accuracy_drop / 100.0 * float(space.task.features.shape[0])


class _Encoding:
    """Variables and linear expressions of the model."""

    def __init__(self, space: ShiftryCandidates, surrogate: Surrogate, *, limited: bool) -> None:
        self.model = cp_model.CpModel()
        self._decisions = space.decisions
        self._limited = limited
        self._chosen = [
            {option: self.model.new_bool_var(f"{d.name}={option}") for option in d.options} for d in space.decisions
        ]
        for options in self._chosen:
            self.model.add_exactly_one(options.values())
        costs = [
            {option: round(cost * COST_UNITS) for option, cost in by_option.items()} for by_option in surrogate.costs
        ]
        self.cost = sum(
            (
                cost[o] * literal
                for cost, chosen in zip(costs, self._chosen, strict=True)
                for o, literal in chosen.items()
            ),
            start=cp_model.LinearExpr.term(self.model.new_constant(0), 1),
        )
        self._least_cost = sum(min(cost.values()) for cost in costs)
        self._most_cost = sum(max(cost.values()) for cost in costs)
        self.largest_cost = max(abs(self._least_cost), abs(self._most_cost), 1) * 2
        self._bytes_of = {
            d.name: sum(parse_format(str(o)).computed_bits // 8 * literal for o, literal in chosen.items())
            for d, chosen in zip(space.format_decisions, self._chosen, strict=False)  # what else is decided comes last
        }
        self.wide = {name: self.model.new_bool_var(f"wide {name}") for name in self._bytes_of}
        offered = {d.name: {parse_format(str(o)).bits for o in d.options} for d in space.format_decisions}
        self._widest = {
            name: self.model.new_bool_var(f"widest {name}") for name in self.wide if WIDE_BITS in offered[name]
        }
        self._most_bytes = max((max(widths) for widths in offered.values()), default=16) // 8
        for name, expression in self._bytes_of.items():
            self.model.add(expression == self._width_of(name))
            if name in self._widest:
                self.model.add_implication(self._widest[name], self.wide[name])
        flash, self._peak = self._flash(space), self._ram(space)
        ram = self._peak
        self.places = False
        self.memory_bytes = cp_model.LinearExpr.sum([flash, ram])
        self._bytes_by_metric = {"flash_bytes": flash, "ram_bytes": ram, "memory_bytes": self.memory_bytes}
        most = space.evaluator.footprint.flash_bytes(
            np.full((1, len(space.task.program.variables)), 8 * max(2, self._most_bytes))
        )[0]
        self.memory_span = int(most) + 10 * 1024 + self._most_ram
        if limited and space.options.flash_limit_bytes is not None:
            self.model.add(flash <= space.options.flash_limit_bytes)
        if limited and space.options.ram_limit_bytes is not None:
            self.model.add(ram <= space.options.ram_limit_bytes)

    def _width_of(self, name: str) -> cp_model.LinearExpr:
        """Bytes an element of a variable: 1, 2 or 4."""
        more = [2 * self._widest[name]] if name in self._widest else []
        return cp_model.LinearExpr.sum([self.wide[name] + 1, *more])

    def place(self, space: ShiftryCandidates) -> None:
        """Let RAM be the extent of a placement, whose offsets join the model, rather than a bound on it."""
        interference = space.evaluator.footprint.placer.interference
        widths = {
            name: Width(self._width_of(name), (1, 2, 4) if name in self._widest else (1, 2))
            if name in self.wide
            else Width(LABEL_BYTES, (LABEL_BYTES,))
            for name in interference.names
        }
        limit = space.options.ram_limit_bytes if self._limited else None
        add_placement(self.model, interference, widths, self._peak, self._most_ram if limit is None else limit)
        self.places = True

    def forbid(self, assignment: Assignment) -> None:
        """This candidate is not to be proposed again."""
        literals = [chosen[assignment[d.name]] for d, chosen in zip(self._decisions, self._chosen, strict=True)]
        self.model.add_bool_or([literal.negated() for literal in literals])

    def excess_over(self, limit: int) -> cp_model.IntVar:
        """A variable that is at least the cost in excess of `limit`."""
        excess = self.model.new_int_var(0, max(self._most_cost - limit, 0), "excess")
        self.model.add(excess >= self.cost - limit)
        return excess

    def over_budgets(self, budgets: Mapping[str, int]) -> cp_model.LinearExpr:
        """Bytes beyond budgets, by metric: each variable is at least as much."""
        found = []
        for metric, budget in budgets.items():
            over = self.model.new_int_var(0, self.memory_span, f"over {metric}")
            self.model.add(over >= self._bytes_by_metric[metric] - budget)
            found.append(over)
        return cp_model.LinearExpr.sum(found)

    def read(self, solver: cp_model.CpSolver) -> Assignment:
        """The candidate of the solver's solution."""
        return {
            d.name: next(o for o, literal in chosen.items() if solver.boolean_value(literal))
            for d, chosen in zip(self._decisions, self._chosen, strict=True)
        }

    def _flash(self, space: ShiftryCandidates) -> cp_model.LinearExpr:
        chosen_of = {d.name: chosen for d, chosen in zip(self._decisions, self._chosen, strict=True)}
        parameters = [
            sum(space.stored_bytes(name, o) * literal for o, literal in chosen_of[name].items())
            for name in space.evaluator.footprint.storage
        ]
        tables = [table.stored_bytes * used for table, used in self._tables(space).items()]
        return cp_model.LinearExpr.sum([*parameters, *tables, *self._unpacking(space.evaluator.unpacking)])

    def _unpacking(self, size: UnpackingSize) -> list[cp_model.LinearExprT]:
        """Bytes of code that unpacks: what several parameters share is charged once."""
        terms: list[cp_model.LinearExprT] = []
        shared: dict[str, cp_model.IntVar] = {}
        plain: dict[str, list[cp_model.IntVar]] = {function: [] for function in size.plain}
        for decision, chosen in zip(self._decisions, self._chosen, strict=True):
            for option, literal in chosen.items() if decision.name in size.pieces else ():
                form = parse_format(str(option))
                pieces = size.pieces[decision.name].get((form.bits, form.codebook), Pieces())
                own = [*pieces.own, *(["rows"] if form.by_rows else [])]
                terms.append(sum(CODE_BYTES[piece] for piece in own) * literal)
                for piece in pieces.shared:
                    used = shared.setdefault(piece, self.model.new_bool_var(f"code {piece}"))
                    self.model.add_implication(literal, used)
                for function, users in size.plain.items():
                    if form.bits not in LAYOUTS and decision.name in users:
                        plain[function].append(literal)
        terms += [CODE_BYTES[piece] * used for piece, used in shared.items()]
        for function, choices in plain.items() if shared else ():
            if size.plain[function]:
                some = self.model.new_bool_var(f"code {function}")
                for choice in choices:
                    self.model.add_implication(choice, some)
                terms.append(CODE_BYTES[function] * some - CODE_BYTES[function])
        return terms

    def _tables(self, space: ShiftryCandidates) -> dict[Exponential, cp_model.IntVar]:
        """Which exponential tables are used: the argument's width chooses one."""
        used: dict[Exponential, cp_model.IntVar] = {}
        for row, operation in enumerate(ir.operations(space.task.program.body)):
            if not isinstance(operation, ir.TableFunction):
                continue
            largest = space.lowering.largest_exponents.get(row, 0.0) if isinstance(operation, ir.Exp) else 0.0
            chosen = self._chosen[[d.name for d in self._decisions].index(operation.a.variable)]
            for bits in SHIFTRY_INPUT_SCALE:
                table = shiftry_exponential(bits, largest)
                variable = used.setdefault(table, self.model.new_bool_var(f"table{len(used)}"))
                for option, literal in chosen.items():
                    if min(parse_format(str(option)).computed_bits, max(SHIFTRY_INPUT_SCALE)) == bits:
                        self.model.add_implication(literal, variable)
        return used

    def _ram(self, space: ShiftryCandidates) -> cp_model.IntVar:
        interference = space.evaluator.footprint.placer.interference
        sizes = interference.elements
        self._most_ram = sum(max(2, self._most_bytes) * size for size in sizes.values())
        peak = self.model.new_int_var(0, self._most_ram, "ram")
        for instant in interference.instants:
            held = sum(sizes[n] * self._bytes_of.get(n, LABEL_BYTES) for n in sorted(instant.held))
            self.model.add(peak >= held - sum(self._shared(meeting, sizes) for meeting in instant.meetings))
        return peak

    def _shared(self, meeting: Meeting, sizes: Mapping[str, int]) -> cp_model.IntVar:
        """Bytes that a result may have in common with its operand, which depends on both widths."""
        most = max(2, self._most_bytes) * min(sizes[meeting.result], sizes[meeting.operand])
        shared = self.model.new_int_var(0, most, f"shared {meeting.result} {meeting.operand}")
        for result_bytes, result_is in self._widths_of(meeting.result):
            for operand_bytes, operand_is in self._widths_of(meeting.operand):
                result, operand = sizes[meeting.result] * result_bytes, sizes[meeting.operand] * operand_bytes
                limit = shared_bytes(meeting, result, operand, result_bytes, operand_bytes)
                self.model.add(shared <= limit).only_enforce_if([*result_is, *operand_is])
        return shared

    def _widths_of(self, name: str) -> list[tuple[int, list[cp_model.LiteralT]]]:
        """(bytes an element, literals that say so) of a temporary; labels have one width and nothing to say."""
        wide, widest = self.wide.get(name), self._widest.get(name)
        if wide is None:
            return [(LABEL_BYTES, [])]
        if widest is None:
            return [(1, [wide.negated()]), (2, [wide])]
        return [(1, [wide.negated()]), (2, [wide, widest.negated()]), (4, [widest])]
