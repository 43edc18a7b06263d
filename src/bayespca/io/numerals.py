"""Numbers as people write them: 1,234.5, 12 %, $3.20, 3,20 €."""

from __future__ import annotations

import re
from functools import cache

CURRENCIES = r"[$€£¥₹]|EUR|USD|GBP|CHF|JPY|INR"
# An optional sign, the number, a currency on either side, and percent at the end.
SIGNED = re.compile(rf"([-+−]?)\s*(?:{CURRENCIES})?\s*([-+−]?[\d.,].*?)\s*(?:{CURRENCIES}|[%‰])?")


def bare(field: str, decimal: str) -> str:
    """The digits of a number, without thousands separators, percent and currency signs.

    Percentages are not divided by 100. A field that is not such a number is returned unchanged.
    """
    found = SIGNED.fullmatch(field.strip())
    if found is None:
        return field
    number = (found[1] + found[2]).replace("−", "-")
    end = _whole(number, decimal)
    return re.sub(r"[,.'’\s]", "", number[:end]) + number[end:]


def _whole(number: str, decimal: str) -> int:
    """End of the digits in groups of three; 0 if there are none."""
    found = _grouped(decimal).fullmatch(number)
    return found.end(1) if found else 0


@cache
def _grouped(decimal: str) -> re.Pattern[str]:
    """Pattern of digits in groups of three, with the same separator between all of them."""
    separators = r"['’\s]|" + (r"\." if decimal == "," else ",")
    return re.compile(
        rf"([-+]?\d{{1,3}}(?:(?P<by>{separators})\d{{3}})(?:(?P=by)\d{{3}})*)"
        rf"(?:{re.escape(decimal)}\d*)?"
    )
