"""Ratings by exact sampling: draws from the posterior of users, items and their priors."""
