"""The papers, table by table and figure by figure, next to what they print.

A folder is a paper. Its `expected.toml` lists tables and figures in the order of the paper, with
the numbers that are printed; each has a program of the same name with one function,
`reproduce(run) -> Outcome`, written over the public names of bayespca. `bayespca reproduce` runs
them and writes the page. The folder `noise` has no paper: its truth is that of simulated data;
`rankbench` has designs of several.
"""
