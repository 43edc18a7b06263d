"""Bishop: Variational principal components (ICANN 1999)."""
