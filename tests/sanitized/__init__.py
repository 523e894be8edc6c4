"""Generated questions to all searches and simulators that are compiled C, under sanitizers: `python -m tests.sanitized`."""
