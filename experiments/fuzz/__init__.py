"""Mutated inputs of every kind, each read by `tune` in a process of its own with limits: `python -m kilotune.experiments.fuzz`."""
