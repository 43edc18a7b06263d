"""Factorization of ratings by sampling: draws from the posterior of users, items and priors."""
