"""Evaluators of mapped pipelines: bound, timing, and integer-exact execution."""
