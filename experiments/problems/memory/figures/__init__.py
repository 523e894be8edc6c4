"""Figures of placements in reports."""
