"""Strategies compared on cases: what is run, the runs, the result as table, JSON and CSV."""
