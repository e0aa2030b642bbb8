"""Signatures of AWS for requests to models, with the credentials of botocore."""

from __future__ import annotations

import hashlib
import re
from importlib import import_module
from typing import Any, Final, NoReturn

from requests import PreparedRequest
from requests.auth import AuthBase

from ..exceptions import ConfigurationError
from .endpoint import first_set

__all__ = ["SigV4", "sign_for"]

#: Finds ``bedrock`` and ``eu-central-1`` in the address
#: ``https://bedrock-runtime.eu-central-1.amazonaws.com``.
_HOST: Final = re.compile(
    r"//(bedrock(?:-mantle)?)[\w-]*\.([\w-]+)\.(?:amazonaws|api)\."
)
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


class SigV4(AuthBase):
    """Signatures for requests to AWS: pass an object of this class as ``auth=``.

    ::

        OpenAIChat(name, base_url=..., auth=SigV4("bedrock", "eu-central-1"))

    Each attempt has a signature of its own. Credentials come from the usual places: the
    environment, the files of the AWS tools, a role. The transport fetches them on a
    thread that a cancel leaves behind.

    :param service: the name of the service in the signature, such as ``bedrock``.
    :param region: by default the region of the environment, or of the profile.
    :param profile: the name of a profile in the files of the AWS tools.
    :param credentials: in place of these places: credentials of botocore, or an object
        with ``access_key``, ``secret_key`` and ``token``.
    :raises ConfigurationError: the extra ``aws`` is not installed, or a region is
        missing.
    """

    def __init__(
        self,
        service: str,
        region: str | None = None,
        *,
        profile: str | None = None,
        credentials: Any = None,
    ) -> None:
        try:
            self._signer: Any = import_module("botocore.auth").SigV4Auth
            self._request: Any = import_module("botocore.awsrequest").AWSRequest
            self._session: Any = import_module("botocore.session").Session
        except ModuleNotFoundError:
            raise ConfigurationError(
                'signing requests for AWS needs botocore: pip install "syncagent[aws]".'
                " Or use a key of Bedrock: pass api_key=, or set "
                "AWS_BEARER_TOKEN_BEDROCK"
            ) from None
        self.service = service
        self._profile = profile
        self._given = credentials
        #: Credentials of a session, which renews them before they expire.
        self._found: Any = None
        found = region or first_set(_REGIONS)
        if not found:
            found = self._session(profile=profile).get_config_variable("region")
        if not found:
            raise ConfigurationError(
                f"SigV4 needs a region: pass region=, or set {' or '.join(_REGIONS)}"
            )
        self.region: str = found

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        body = request.body or b""
        data = body if isinstance(body, bytes) else str(body).encode()
        # Only headers that no proxy changes; the signer adds host, date and token.
        headers = {"X-Amz-Content-SHA256": hashlib.sha256(data).hexdigest()}
        if "Content-Type" in request.headers:
            headers["Content-Type"] = str(request.headers["Content-Type"])
        signed = self._request(request.method, request.url, headers, data)
        self._signer(self._freeze(), self.service, self.region).add_auth(signed)
        request.headers.update(signed.headers.items())
        return request

    def refresh(self) -> None:
        """Forget refused credentials; the next request looks for others."""
        self._found = None

    def _freeze(self) -> Any:
        """Return the current credentials: a key, a secret and a token that match."""
        source = self._given or self._found
        if source is None:
            source = self._found = self._session(
                profile=self._profile
            ).get_credentials()
        if source is None:
            raise ConfigurationError(
                "no AWS credentials in the environment, in the files of the AWS tools, "
                "or from a role; run 'aws configure', or pass credentials="
            )
        freeze = getattr(source, "get_frozen_credentials", None)
        return source if freeze is None else freeze()

    def __repr__(self) -> str:
        return f"<SigV4 {self.service} {self.region}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "credentials are not pickled; make a SigV4 in the other process"
        )


def sign_for(base_url: str) -> SigV4:
    """Return the auth object that signs requests to Bedrock at *base_url*.

    :raises ConfigurationError: as for :class:`SigV4`.
    """
    found = _HOST.search(base_url)
    return SigV4("bedrock") if found is None else SigV4(*found.groups())
