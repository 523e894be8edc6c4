"""Import, lowering and execution of networks on computational memory."""
