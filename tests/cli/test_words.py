"""Help texts have examples, and messages name options as users type them."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
from typer.main import get_command

from bayespca.cli import screen
from bayespca.cli.app import app
from bayespca.cli.messages import on_the_command_line

from .installed import run

VERBS = get_command(app).commands


def test_help_has_examples_and_flags_without_types(tmp_path):
    said = run("impute", "--help", cwd=tmp_path)
    assert "<bool>" not in said
    assert "Examples: bayespca impute data.csv -o full.csv" in said


@pytest.mark.parametrize("name", VERBS)
def test_examples_are_commands(name):
    verb = VERBS[name]
    assert verb.examples
    for example in verb.examples:
        typed = example.partition("<")[0].partition(">")[0]
        words = [word for word in shlex.split(typed) if word != "-"]
        known = {option for param in verb.params for option in (*param.opts, *param.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--method", "ml"],
            "--method ml needs the number of components: give --n-components, as a whole number or "
            "as a share of the variance such as 0.95.",
        ),
        (["--n-components", "mle"], "says how many components hold 95 % of the signal"),
        (["--clusters", "90"], "--clusters 90 clusters need at least as many rows, and there are"),
        (["--clusters", "90"], "lower --clusters."),
        (["--clusters", "2", "--n-components", "0.3"], "--n-components must be 'auto', a whole"),
        (["--method", "vb", "--prior-variance", "0"], "--prior-variance must be positive"),
        (["--delimiter", ";"], "the option --delimiter does not apply to .npy files"),
    ],
)
def test_messages_name_options_as_they_are_typed(options, sentence, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(20, 4)))
    assert sentence in run("fit", "x.npy", *options, cwd=tmp_path, rc=1)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("use scale=True, or center=False", "use --scale, or --no-center"),
        ("set `random_state`", "set --seed"),
        ("so transpose the table", "so transpose the table (--transpose)"),
        ("the option missing means", "the option --na means"),
        ("'n_components' is a column of my_table", "'n_components' is a column of my_table"),
        ("min(n_samples, n_features)=4", "min(n_samples, n_features)=4"),
        ("the noise is a method", "the noise is a method"),
        (
            "in Python with bayespca.io.How(scale=True)",
            "in Python with bayespca.io.How(scale=True)",
        ),
    ],
)
def test_only_options_are_changed(message, shown):
    assert on_the_command_line(message) == shown


def test_notes_in_json_name_options_as_they_are_typed(capsys):
    screen.print_json({"notes": ["With n_components=1 it is kept."], "n_components": 1})
    found = json.loads(capsys.readouterr().out)
    assert found == {"notes": ["With --n-components 1 it is kept."], "n_components": 1}
