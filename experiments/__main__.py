"""The `tune` command, for its script and as `python -m kilotune.experiments`, a name that no other package takes."""

from kilotune.experiments.commands.interrupts import quit_on_interrupt

quit_on_interrupt()  # before all that takes its time to import

from kilotune.experiments.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
