"""What a cell is like given its natural parameter z: one file for each likelihood."""
