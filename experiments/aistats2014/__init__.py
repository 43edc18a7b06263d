"""Nakajima, Sugiyama: Analysis of empirical MAP and empirical partially Bayes (AISTATS 2014)."""
