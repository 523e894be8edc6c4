"""Figures of hardware in reports."""
