"""Ensembles of decision trees: what they are, how they are read, and programs in integers that decide as they do."""
