"""Figures of fixed-point programs in reports."""
