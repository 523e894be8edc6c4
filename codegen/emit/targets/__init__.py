"""What an exported folder holds besides the program, one module a target; `project` gathers them."""
