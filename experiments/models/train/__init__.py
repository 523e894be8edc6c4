"""Trains the bundled models on scikit-learn's real data sets: `python -m kilotune.experiments.models.train NAME`."""
