"""TLS with AWS: verified, against the certificates of authorities that botocore trusts.

Reading all 140 of them costs 70 ms of CPU and more, and AWS's services have certificates of Amazon's own authorities
(Amazon Trust Services, repository of certificates). So those are tried first. If they do not verify a server, all of
them do or do not, as with botocore: nothing is trusted here that is not trusted there.
"""

from __future__ import annotations

import os
import re
import ssl
from functools import cache
from typing import Final

import botocore

_BUNDLE: Final = os.path.join(botocore.__path__[0], "cacert.pem")  # pathlib is not imported for this
_OWNERS: Final = ("O=Amazon", "Starfield Services Root")
_CERTIFICATE: Final = re.compile(r"^# Subject: (.*)\n(?:#.*\n)*(-----BEGIN CERTIFICATE-----\n[^-]*-----END .*\n)", re.M)


@cache
def amazon_tls() -> ssl.SSLContext:
    """Return a context that trusts Amazon's authorities; all of them if the bundle does not name their subjects."""
    with open(_BUNDLE, encoding="utf-8") as bundle:
        chosen = of_amazon(bundle.read())
    return ssl.create_default_context(cadata=chosen) if chosen else full_tls()


@cache
def full_tls() -> ssl.SSLContext:
    """Return a context that trusts every authority of the bundle."""
    return ssl.create_default_context(cafile=_BUNDLE)


def of_amazon(bundle: str) -> str:
    """Return the certificates of Amazon's authorities, in PEM."""
    certificates = _CERTIFICATE.findall(bundle)
    return "".join(pem for subject, pem in certificates if any(owner in subject for owner in _OWNERS))
