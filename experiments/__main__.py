"""`python -m kilotune.experiments` is the `tune` command under a name that no other package takes."""

from kilotune.experiments.cli import main

main()
