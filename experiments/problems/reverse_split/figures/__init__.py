"""Figures of SCAMP-5 programs in reports."""
