"""Programs on simulated AVR processors: avr-gcc builds them, simavr runs them in this process, cycle by cycle."""
