"""Numbers as people write them: 1,234.5, 12 %, $3.20, 3,20 €."""

from __future__ import annotations

import re
from functools import cache

CURRENCIES = r"[$€£¥₹]|EUR|USD|GBP|CHF|JPY|INR"
# A sign, a currency before or after, percent after; what is between them is the number.
SIGNED = re.compile(rf"([-+−]?)\s*(?:{CURRENCIES})?\s*([-+−]?[\d.,].*?)\s*(?:{CURRENCIES}|[%‰])?")


def bare(field: str, decimal: str) -> str:
    """The digits of a number: without separators of thousands, percent and currency.

    Percent are not divided by 100. What is no such number comes back as it is.
    """
    found = SIGNED.fullmatch(field.strip())
    if found is None:
        return field
    number = (found[1] + found[2]).replace("−", "-")
    end = _whole(number, decimal)
    return re.sub(r"[,.'’\s]", "", number[:end]) + number[end:]


def _whole(number: str, decimal: str) -> int:
    """Where the digits in groups of three end; 0 where there are none."""
    found = _grouped(decimal).fullmatch(number)
    return found.end(1) if found else 0


@cache
def _grouped(decimal: str) -> re.Pattern[str]:
    """Digits in groups of three, with one separator between all of them."""
    separators = r"['’\s]|" + (r"\." if decimal == "," else ",")
    return re.compile(
        rf"([-+]?\d{{1,3}}(?:(?P<by>{separators})\d{{3}})(?:(?P=by)\d{{3}})*)"
        rf"(?:{re.escape(decimal)}\d*)?"
    )
