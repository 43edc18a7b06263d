"""Noise that is not white: ranks, held-out cells, and the noise model that the evidence chooses."""
