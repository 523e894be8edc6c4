"""`python -m kilotune.experiments.soak`: so many kills over all spaces, stores and numbers of processes, and a table."""

from __future__ import annotations

import contextlib
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from kilotune.experiments.soak.killing import SUBJECTS, Round, killed_study
from kilotune.experiments.soak.server import PROGRAMS, TemporaryServer

COLUMNS = "space; store; processes; kills; of them while searching; trials; as undisturbed"


@click.command()
@click.option("--kills", default=100, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=1, show_default=True, help="Of the moments, and of the studies.")
@click.option(
    "--store", "stores", multiple=True, metavar="sqlite|postgresql|URL", help="Several  [default: sqlite, postgresql]."
)
@click.option("--processes", multiple=True, type=click.IntRange(1), help="On a study, several  [default: 1, 2].")
@click.option("--space", "spaces", multiple=True, type=click.Choice([s.space for s in SUBJECTS]), help="[default: all]")
@click.option("--window", "window_s", default=3.0, show_default=True, help="Seconds from which a moment is drawn.")
def main(
    kills: int, seed: int, stores: tuple[str, ...], processes: tuple[int, ...], spaces: tuple[str, ...], window_s: float
) -> None:
    """Kill `tune` with -9 at random moments, and see that nothing is lost. Exit status 1 when something is.

    `postgresql` starts a server of its own (Debian: apt install postgresql). About ten seconds a kill.
    """
    rng, rounds, begun_s = random.Random(seed), list[tuple[str, int, Round]](), time.monotonic()
    subjects = [subject for subject in SUBJECTS if not spaces or subject.space in spaces]
    with tempfile.TemporaryDirectory(prefix="kilotune-soak-") as scratch, contextlib.ExitStack() as servers:
        folder = Path(scratch)
        places = {store: servers.enter_context(_place(store, folder)) for store in stores or ("sqlite", "postgresql")}
        mixes = [(subject, store, n) for subject in subjects for store in places for n in processes or (1, 2)]
        click.echo(COLUMNS)
        for number, (subject, store, count) in enumerate(mixes):
            left = kills - sum(done.kills for _, _, done in rounds)
            share = -(-left // (len(mixes) - number))
            while share > 0:
                made = killed_study(subject, places[store], count, min(share, 5), rng, folder, window_s)
                rounds.append((store, count, made))
                share -= max(made.kills, 1)
                verdict = "yes" if not made.faults else "NO: " + "; ".join(made.faults)
                click.echo(
                    f"{subject.space}; {store}; {count}; {made.kills}; {made.searching}; {made.trials}; {verdict}"
                )
    killed = sum(done.kills for _, _, done in rounds)
    while_searching = sum(done.searching for _, _, done in rounds)
    faulty = [done for _, _, done in rounds if done.faults]
    click.echo(
        f"{killed} kills, {while_searching} of them while searching, in {len(rounds)} studies of "
        f"{sum(done.trials for _, _, done in rounds)} trials: {len(faulty)} studies with faults "
        f"({time.monotonic() - begun_s:.0f} s, seed {seed})"
    )
    sys.exit(1 if faulty else 0)


@contextlib.contextmanager
def _place(store: str, folder: Path) -> Iterator[str]:
    """The URL of a store."""
    if store == "sqlite":
        yield str(folder / "studies.db")
    elif store != "postgresql":
        yield store
    elif PROGRAMS is None:
        raise click.UsageError(
            "PostgreSQL is not installed (Debian: apt install postgresql); --store sqlite goes without."
        )
    else:
        with tempfile.TemporaryDirectory() as place:
            server = TemporaryServer(Path(place))
            server.start()
            try:
                yield server.url
            finally:
                server.stop()


if __name__ == "__main__":
    main()
