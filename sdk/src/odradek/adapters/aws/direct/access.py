"""When the direct clients may be used, and with what: pure.

Only in the plain case. Whatever else botocore knows (profiles, roles, refreshed credentials, proxies, endpoints of
other partitions, FIPS and dual-stack endpoints) is left to botocore. Under SnapStart, Lambda gives a function no keys
in its environment but an address from which it fetches credentials that expire: botocore's, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from odradek.adapters.aws.direct.signature import Credentials

# Regions of the partition `aws`; the names of others ("us-gov-west-1", "cn-north-1") have other endpoints.
_REGION: Final = re.compile(r"(us|eu|ap|sa|ca|me|af|il|mx)-[a-z]+-\d")
_LEFT_TO_BOTOCORE: Final = frozenset(
    {
        *("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "AWS_PROFILE"),
        *("AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT"),
        *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_S3"),
    }
)


@dataclass(frozen=True, slots=True)
class Access:
    """What the direct clients sign and connect with."""

    credentials: Credentials
    region: str
    endpoint_url: str | None  # of an emulator; None: AWS

    def dynamodb_url(self) -> str:
        """Return the base URL of DynamoDB."""
        return self.endpoint_url or f"https://dynamodb.{self.region}.amazonaws.com"

    def bucket_url(self, bucket: str) -> str:
        """Return the base URL of a bucket's keys: of a host of its own, as S3 wants it, where its name allows that."""
        if self.endpoint_url:
            return f"{self.endpoint_url.rstrip('/')}/{bucket}"
        if "." in bucket:  # the certificate's wildcard covers one label
            return f"https://s3.{self.region}.amazonaws.com/{bucket}"
        return f"https://{bucket}.s3.{self.region}.amazonaws.com"


def access_of(environ: Mapping[str, str], region: str | None, endpoint_url: str | None) -> Access | None:
    """Return what the direct clients need; None if this environment is for botocore."""
    key, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret or region is None or not _REGION.fullmatch(region):
        return None
    is_encrypted = endpoint_url is None or urlsplit(endpoint_url).scheme != "http"
    left = _LEFT_TO_BOTOCORE | ({"AWS_CA_BUNDLE"} if is_encrypted else set())
    if any(name.upper() in left and value for name, value in environ.items()):
        return None
    return Access(Credentials(key, secret, environ.get("AWS_SESSION_TOKEN") or None), region, endpoint_url)
