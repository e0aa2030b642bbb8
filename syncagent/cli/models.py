"""The command ``syncagent models``."""

from __future__ import annotations

import argparse
from typing import Final

from ..cancel import CancelToken
from ..models.endpoints import ENDPOINTS
from ..models.known import known_date
from .formatting import address_text

SUMMARY: Final = "list the providers of models, and whether a key is set"


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Print the providers, never a key, and the date of the prices.

    :return: 0.
    """
    rows = [("MODEL", "KEY", "ADDRESS")]
    for endpoint in ENDPOINTS.values():
        variables = " or ".join(endpoint.key_variables)
        if endpoint.find_key() is not None:
            key = f"set ({variables})"
        elif endpoint.needs_key:
            key = f"missing, set {variables}"
        else:
            key = "not needed"
        address = address_text(endpoint.find_url())
        rows.append((f"{endpoint.name}:{endpoint.example}", key, address))
    rows.append(("local", "not needed", "this machine; syncagent doctor says how"))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for model, key, address in rows:
        print(f"{model:{widths[0]}}  {key:{widths[1]}}  {address}")
    print(f"\nPrices and context windows are those of {known_date()}.")
    return 0
