"""Trains the bundled models on real data sets, most of them scikit-learn's: `python -m kilotune.experiments.models.train NAME`."""
