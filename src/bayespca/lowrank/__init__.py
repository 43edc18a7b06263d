"""What low-rank normal models share: factors, rows with holes, posteriors, densities, kernels."""
