"""Volumes of images, such as those of diffusion and functional MRI, without their noise."""

from .denoising import Denoised, denoise

__all__ = ["Denoised", "denoise"]
