"""Lowering onto computational-memory accelerators: partitions, dependences, state machines, the timed pipeline."""
