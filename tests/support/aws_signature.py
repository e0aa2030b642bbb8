"""The signature of AWS for a request, computed by hand."""

import hashlib
import hmac
from urllib.parse import quote


def hmac_of(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature_of(method, path, headers, body, scope, names, secret):
    """Return the signature of a request, as the manual of AWS says."""
    path, _, query = path.partition("?")
    lines = [f"{name}:{' '.join(headers[name].split())}" for name in names.split(";")]
    canonical = "\n".join(
        [
            method,
            quote(path, safe="/~-_."),
            "&".join(sorted(query.split("&"))),
            *lines,
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{headers['x-amz-date']}\n{scope}\n{digest}"
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac_of(key, part)
    return hmac_of(key, text).hex()
