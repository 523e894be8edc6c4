"""What a plug-in's function `draw` returns: sections of a report, of text, tables and Plotly figures."""

from kilotune.experiments.report.section import Drawing, Figure, Listing, Paragraph, Row, Section, Table

__all__ = ("Drawing", "Figure", "Listing", "Paragraph", "Row", "Section", "Table")
