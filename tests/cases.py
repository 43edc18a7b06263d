"""Which cases to run: `make test` leaves out those that take long and show little more."""

from __future__ import annotations

import os

# `make test-all` asks for all of them.
EVERY_CASE = "BAYESPCA_EVERY_CASE" in os.environ
