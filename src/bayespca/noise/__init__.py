"""Which noise the data have: what residuals show, and which noise model the evidence prefers."""
