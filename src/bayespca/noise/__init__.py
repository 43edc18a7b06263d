"""Choice of a noise model: signs in the residuals, and the model that the evidence prefers."""
