"""List the providers that are known, and whether there is a key for them."""

from __future__ import annotations

import argparse
from typing import Final

from ..cancel import CancelToken
from ..models.endpoints import ENDPOINTS, Endpoint

SUMMARY: Final = "list the providers of models, and whether a key is set"


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Print the list; never a key.

    :return: 0.
    """
    rows = [("MODEL", "KEY", "ADDRESS")]
    rows += [_row(endpoint) for endpoint in ENDPOINTS.values()]
    rows.append(("local", "needs none", "this machine; syncagent doctor says how"))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for model, key, address in rows:
        print(f"{model:{widths[0]}}  {key:{widths[1]}}  {address}")
    return 0


def _row(endpoint: Endpoint) -> tuple[str, str, str]:
    name = f"{endpoint.name}:{endpoint.example}"
    variables = " or ".join(endpoint.key_variables)
    if endpoint.find_key() is not None:
        key = f"set ({variables})"
    elif endpoint.needs_key:
        key = f"missing, set {variables}"
    else:
        key = "needs none"
    return name, key, endpoint.find_url()
