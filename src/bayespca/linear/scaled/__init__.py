"""Complete data with noise variances for rows or columns, or noise correlated in neighbours."""
