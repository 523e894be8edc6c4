"""What a running search and its result look like on a terminal."""
