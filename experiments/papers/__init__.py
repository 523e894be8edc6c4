"""Experiments of the papers, regenerated: each module prints a table with the paper's figures beside ours."""
