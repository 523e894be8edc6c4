"""What an exported folder holds besides the program, one module a target; `project` writes the folder."""
