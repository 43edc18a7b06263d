"""Views whose cells have likelihoods of their own: flags, levels, counts and numbers together."""
