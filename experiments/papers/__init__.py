"""One study for each table or figure of the papers: prints the paper's numbers beside ours, draws the figure."""
