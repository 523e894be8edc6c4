"""Figures of mapped networks in reports."""
