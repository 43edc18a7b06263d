"""Denoising of image series, such as those of diffusion and functional MRI."""

from .denoising import Denoised, denoise

__all__ = ["Denoised", "denoise"]
