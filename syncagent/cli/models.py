"""The command ``syncagent models``."""

from __future__ import annotations

import argparse
from typing import Final

from ..cancel import CancelToken
from ..exceptions import ConfigurationError
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
        names = (*endpoint.key_variables, *endpoint.token_variables)
        variables = " or ".join(names)
        if endpoint.find_key() is not None:
            key = f"set ({variables})"
        elif endpoint.is_aws:
            key = f"{variables}, or AWS credentials"
        elif endpoint.needs_key:
            key = f"missing, set {variables}" if variables else "api_key="
        else:
            key = "not needed"
        try:
            address = address_text(endpoint.find_url())
        except ConfigurationError:  # a part of it is different for every user
            address = endpoint.base_url or f"that of {endpoint.url_variables[0]}"
        rows.append((f"{endpoint.name}:{endpoint.example}", key, address))
    rows.append(("local", "not needed", "this machine; syncagent doctor says how"))
    rows.append(("demo", "not needed", "a script with tools, to try things out"))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for model, key, address in rows:
        print(f"{model:{widths[0]}}  {key:{widths[1]}}  {address}")
    print(f"\nPrices and context windows are those of {known_date()}.")
    return 0
