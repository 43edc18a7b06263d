"""Curved latent spaces: Gaussian process latent variable models."""
