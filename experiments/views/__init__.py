"""Several tables of the same samples: six views of handwritten digits, genes and lipids of mice."""
