"""Complete data by iteration: every family and every prior."""
