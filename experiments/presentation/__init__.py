"""What is shown before it is a page or a line on a terminal: sections, figures and their colours, numbers in words."""
