"""How ``manage.py syncagent_runs`` and ``syncagent_cancel`` reach the server.

A command is another process than the server, and runs live in the server. So there are
two endpoints for whoever has ``SYNCAGENT["OPERATOR_TOKEN"]``; without one in the
settings they are not there. They take no cookie into account, so that no page of
another site can use a browser for them; that is why they need no CSRF token.
"""

from __future__ import annotations

import secrets
from typing import Final

from django.db import transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from ..web.bodies import CancelRequest, encode_body
from ..web.refusals import Refused
from ..web.settings import SHORTEST_TOKEN
from ..web.views import WebRequest, refusal
from .conf import OPERATOR, get_views, read_settings
from .views import make_response

__all__ = ["cancel", "runs"]

_SCHEME: Final = "Bearer "
_JSON: Final = "application/json"


def _is_operator(request: HttpRequest) -> bool:
    token = read_settings().operator_token or ""
    said = request.headers.get("Authorization", "")
    if len(token) < SHORTEST_TOKEN or not said.startswith(_SCHEME):
        return False
    given = said.removeprefix(_SCHEME).strip()
    return secrets.compare_digest(given.encode(), token.encode())


def _nothing_here(request: HttpRequest) -> HttpResponseBase:
    # The same for a wrong token as for a site that has none.
    refused = Refused(404, "not_found", "There is nothing here.")
    return make_response(request, refusal(refused))


@transaction.non_atomic_requests
@require_GET
def runs(request: HttpRequest) -> HttpResponseBase:
    """List the runs of this process, everybody's."""
    if not _is_operator(request):
        return _nothing_here(request)
    return make_response(request, get_views().list(WebRequest(request=OPERATOR)))


@transaction.non_atomic_requests
@csrf_exempt
@require_POST
def cancel(request: HttpRequest, id: str) -> HttpResponseBase:
    """End anybody's run."""
    if not _is_operator(request):
        return _nothing_here(request)
    wanted = encode_body(CancelRequest(reason="an operator has ended it"))
    call = WebRequest(
        request=OPERATOR, body=wanted, content_type=_JSON, is_operator=True
    )
    return make_response(request, get_views().cancel(call, id))
