"""Cost tables, one JSON file a target: cycles of each feature of emitted code, fitted to simulator runs."""
