"""Forests as assembler of AVR: trees whose frequent part is instructions, scores in registers."""
