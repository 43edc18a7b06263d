"""Views whose columns have their own likelihoods: flags, levels, counts and numbers together."""
