"""What a plug-in's function `draw` returns: sections of a report, of text, tables and Plotly figures."""

from kilotune.experiments.presentation.section import Figure, Listing, Paragraph, Row, Section, Table
from kilotune.experiments.problems.drawing import Drawing

__all__ = ("Drawing", "Figure", "Listing", "Paragraph", "Row", "Section", "Table")
