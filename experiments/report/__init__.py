"""One HTML file that opens offline: of a study, or of a comparison."""
