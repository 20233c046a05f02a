"""Verification of AWS Signature Version 4, as by a function URL with AWS_IAM.

    Authorization: AWS4-HMAC-SHA256 Credential=<key id>/<yyyymmdd>/<region>/lambda/aws4_request,
                   SignedHeaders=host;x-amz-date, Signature=<64 hex digits>

    canonical request   method \\n path \\n query \\n headers \\n signed header names \\n SHA-256 of the body
    string to sign      algorithm \\n x-amz-date \\n scope \\n SHA-256 of the canonical request
    signing key         HMAC chain over secret, date, region, service, "aws4_request"

The hash in the canonical request is always that of the received body, so an altered body never verifies, whatever its
headers claim. `host` and every `x-amz-*` header must be signed. Comparison takes constant time. As with AWS, a captured
request can be sent again while its date is within the window: a repeated produce is harmless because of its sequence,
not because of the signature. Source: AWS IAM user guide, "Create a signed AWS API request".
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote, unquote_to_bytes

ALGORITHM = "AWS4-HMAC-SHA256"
SERVICE = "lambda"
TERMINATOR = "aws4_request"
WINDOW_S = 300
_DATE_FORMAT = "%Y%m%dT%H%M%SZ"
_AUTHORIZATION = re.compile(
    rf"{ALGORITHM} +Credential=(?P<credential>[^, ]+), *SignedHeaders=(?P<headers>[^, ]+), *"
    r"Signature=(?P<signature>[^, ]+)"
)
_HASH_HEADER = "x-amz-content-sha256"

Headers = Sequence[tuple[str, str]]

_WHICH_KEY = "use the keys in credentials.json of its data directory, which `odradek local` also prints"


class SignatureRefused(Exception):
    """The request has no valid signature. Answered as 403.

    Attributes:
        error_type: AWS's name of the error, sent as x-amzn-ErrorType.
    """

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """An HTTP request as received."""

    method: str
    path: str  # still percent-encoded
    query: str  # still percent-encoded, without "?"
    headers: Headers
    body: bytes

    def header(self, name: str) -> str | None:
        """Return all values of a header, joined as SigV4 joins them; None if it is absent."""
        values = [_collapse(value) for key, value in self.headers if key.lower() == name]
        return ",".join(values) if values else None


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The key that verifies signatures; a `region` of None accepts the scope of any region."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    region: str | None = None


@dataclass(frozen=True, slots=True)
class _Authorization:
    access_key_id: str
    date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    signature: str


def verify(request: SignedRequest, key: SigningKey, now_ms: int) -> None:
    """Return if the request is signed with the key, now. Raises SignatureRefused."""
    authorization = _parse_authorization(request.header("authorization"))
    amz_date = request.header("x-amz-date")
    _check_scope(authorization, key, amz_date)
    assert amz_date is not None
    _check_window(amz_date, now_ms)
    _check_signed_headers(request, authorization.signed_headers)
    body_sha256 = hashlib.sha256(request.body).hexdigest()
    claimed = request.header(_HASH_HEADER)
    scoped = SigningKey(key.access_key_id, key.secret_access_key, authorization.region)
    expected = sign(request, scoped, amz_date, authorization.signed_headers, body_sha256)
    if not hmac.compare_digest(expected.encode(), authorization.signature.encode()) or claimed not in {
        None,
        body_sha256,
    }:
        raise SignatureRefused(
            "InvalidSignatureException",
            "The signature does not match the request: check the secret access key, and that nothing changed the "
            "method, path, signed headers or body after signing.",
        )


def sign(
    request: SignedRequest, key: SigningKey, amz_date: str, signed_headers: Sequence[str], body_sha256: str
) -> str:
    """Return the signature, 64 hex digits. The key must have a region."""
    assert key.region is not None
    scope = f"{amz_date[:8]}/{key.region}/{SERVICE}/{TERMINATOR}"
    canonical = "\n".join(
        [
            request.method,
            quote(request.path or "/", safe="/-_.~"),
            _canonical_query(request.query),
            *(f"{name}:{request.header(name) or ''}" for name in signed_headers),
            "",
            ";".join(signed_headers),
            body_sha256,
        ]
    )
    to_sign = f"{ALGORITHM}\n{amz_date}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    secret = f"AWS4{key.secret_access_key}".encode()
    for part in (amz_date[:8], key.region, SERVICE, TERMINATOR):
        secret = hmac.digest(secret, part.encode(), "sha256")
    return hmac.digest(secret, to_sign.encode(), "sha256").hex()


def _parse_authorization(header: str | None) -> _Authorization:
    if header is None:
        raise SignatureRefused(
            "AccessDeniedException", f"Forbidden: the request is not signed (AWS SigV4): {_WHICH_KEY}."
        )
    match = _AUTHORIZATION.fullmatch(header)
    scope = match["credential"].split("/") if match else []
    if match is None or len(scope) != 5 or scope[4] != TERMINATOR:
        raise SignatureRefused(
            "IncompleteSignatureException",
            f"The Authorization header must be `{ALGORITHM} Credential=<key id>/<date>/<region>/{SERVICE}/{TERMINATOR}"
            ", SignedHeaders=..., Signature=...`.",
        )
    access_key_id, date, region, service, _ = scope
    names = tuple(match["headers"].split(";"))
    return _Authorization(access_key_id, date, region, service, names, match["signature"])


def _check_scope(authorization: _Authorization, key: SigningKey, amz_date: str | None) -> None:
    if not hmac.compare_digest(authorization.access_key_id.encode(), key.access_key_id.encode()):
        raise SignatureRefused(
            "UnrecognizedClientException", f"This service does not know the access key id: {_WHICH_KEY}."
        )
    if amz_date is None or authorization.date != amz_date[:8]:
        raise SignatureRefused(
            "IncompleteSignatureException", "X-Amz-Date is missing, or its day is not that of the credential scope."
        )
    if authorization.service != SERVICE or authorization.region != (key.region or authorization.region):
        raise SignatureRefused(
            "InvalidSignatureException",
            f"The credential must be scoped to service {SERVICE!r} in region {key.region or 'any'!r}, "
            f"not to {authorization.service!r} in {authorization.region!r}.",
        )


def _check_window(amz_date: str, now_ms: int) -> None:
    try:
        signed_at = datetime.strptime(amz_date, _DATE_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        raise SignatureRefused(
            "IncompleteSignatureException", "X-Amz-Date must have the form yyyymmddThhmmssZ."
        ) from None
    age_s = now_ms / 1000 - signed_at.timestamp()
    if abs(age_s) > WINDOW_S:
        when = "expired: signed" if age_s > 0 else "not yet current: signed"
        raise SignatureRefused(
            "InvalidSignatureException",
            f"Signature {when} {amz_date}, more than {WINDOW_S // 60} min from the service's time; check the clock.",
        )


def _check_signed_headers(request: SignedRequest, signed: Sequence[str]) -> None:
    present = {name.lower() for name, _ in request.headers}
    must = {"host"} | {name for name in present if name.startswith("x-amz-")}
    if unsigned := sorted(must - set(signed)):
        raise SignatureRefused("InvalidSignatureException", f"These headers must be signed: {', '.join(unsigned)}.")
    if list(signed) != sorted(set(signed)) or not set(signed) <= present:
        raise SignatureRefused(
            "InvalidSignatureException", "SignedHeaders must be sorted, in lower case, and name existing headers."
        )


def _collapse(value: str) -> str:
    return " ".join(value.split())


def _canonical_query(query: str) -> str:
    pairs = (part.partition("=") for part in query.split("&") if part)
    return "&".join(f"{name}={value}" for name, value in sorted(_encoded(pairs)))


def _encoded(pairs: Iterable[tuple[str, str, str]]) -> Iterable[tuple[str, str]]:
    for name, _, value in pairs:
        yield quote(unquote_to_bytes(name), safe="-_.~"), quote(unquote_to_bytes(value), safe="-_.~")
