"""Widths, scales and hardware together as a space: candidates (`joint_candidates.py`), both papers' procedures, and a model."""

from __future__ import annotations

from collections.abc import Sequence

from kilotune.search.procedure import run_procedure, trials_of
from kilotune.search.space import CandidateModel, Procedure, Trial
from kilotune.spaces.fpga.joint_candidates import JointCandidates


class JointSpace(JointCandidates):
    """The decisions of the spaces shiftry and fpga, and what is known of searching them at once."""

    def model(self, trials: Sequence[Trial]) -> CandidateModel:
        """Formats by what they save and the knapsack for them; see `spaces.fpga.joint_model`."""
        from kilotune.spaces.fpga.joint_model import JointModel  # OR-tools takes a second to import

        return JointModel(self, trials)

    def procedure(self) -> Procedure:
        """Both papers' procedures, one after the other: Shiftry's widths and scales, then SeeDot's hints. Where the board is predicted to
        have no room for these widths, hardware of one lane: narrower ones may fit."""
        answer = run_procedure(self.formats)
        assert answer is not None
        formats = dict(answer.assignment)
        try:
            alone = self.unrolling(formats)
        except ValueError:
            yield [{**formats, **self.choices.answers({}, True, 1)}]
            return
        for trials in trials_of(alone.procedure(), alone.evaluate):
            yield [{**formats, **trial.assignment} for trial in trials]
