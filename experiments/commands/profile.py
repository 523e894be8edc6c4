"""`tune profile`: where the cycles and the memory of a study's program go, layer by layer."""

from __future__ import annotations

import json
import re

import click

from kilotune.experiments.commands import completion
from kilotune.experiments.commands.command_line import level_option, point_option, shape_option, storage_option

WRITTEN = re.compile(r" that writes '[^']*'")
"""What tells nodes without names apart in a message."""


@click.command("profile")
@click.argument("study", shell_complete=completion.studies)
@level_option
@shape_option
@point_option
@click.option("--json", "as_json", is_flag=True, help="As JSON on stdout.")
@storage_option
def profile_command(
    study: str, level: str | None, shape: str | None, point: int | None, as_json: bool, storage: str | None
) -> None:
    """Say where the cycles and the memory of the best program of STUDY go: layer by layer."""
    from rich.console import Console
    from rich.table import Table

    from kilotune.experiments.problems.problem import ProfilesPrograms
    from kilotune.experiments.problems.program_profile import TITLES, cell_text
    from kilotune.experiments.studies import joining
    from kilotune.experiments.studies.chosen_builds import built_for
    from kilotune.experiments.studies.placing_finalists import exported_trial
    from kilotune.experiments.studies.storage import open_store

    problem, stored, _ = joining.resume(open_store(storage), study)
    if not isinstance(problem, ProfilesPrograms):
        raise ValueError(f"A profile is of fixed-point programs; the space {problem.request.space} decides about none.")
    best = exported_trial(problem, stored, point)
    shaped = built_for(problem, stored, best, level, shape)
    assert isinstance(shaped, ProfilesPrograms)
    profile = shaped.layer_profile(best, level)
    if as_json:
        click.echo(json.dumps({"study": study, "trial": best.number, **profile.as_json()}, indent=2))
        return
    rows = [[cell_text(cell) for cell in row] for row in profile.rows]
    shown = [column for column in range(len(TITLES)) if any(row[column] for row in rows)]
    table = Table(show_edge=False, pad_edge=False)
    for column in shown:
        table.add_column(
            TITLES[column].replace(" ", "\n"),
            justify="left" if column < 2 else "right",
            overflow="fold",
            no_wrap=column >= 2,
        )
    for row in rows:
        name = WRITTEN.sub("", row[0])  # the number, the name and the operator do in a narrow column
        table.add_row(*([name, *row[1:]][column] for column in shown))
    console = Console(highlight=False, markup=False)
    console.print(table)
    for sentence in profile.sentences:
        console.print(sentence, soft_wrap=True)
