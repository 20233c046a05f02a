"""Sign-in by OpenID Connect: the authorization code flow with PKCE, as a public or a confidential client.

    /sign-in     to the provider, with state, nonce and the digest of a verifier, which stay in a sealed cookie
    /callback    state and cookie must belong together; the code and the verifier buy an ID token; its signature,
                 issuer, audience, nonce and times are checked; a session begins

Nothing is kept between the two: any process with the same secret can finish a sign-in. A code is good once, which the
provider sees to.
    /sign-out    ends the session here; the provider's own session stays

A user is a principal: `User:<claim>`, or the principal that a group of the user's is mapped to. Tokens are not kept.

Source: OpenID Connect Core 1.0; RFC 7636 (PKCE); RFC 9700 (best current practice for OAuth 2.0).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from odradek.console.sealing import Sealer
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra
from odradek.ports.clock import Clock

if TYPE_CHECKING:
    import aiohttp

PENDING_S = 600.0  # for a person at the provider
_LEEWAY_S = 60
_TIMEOUT_S = 10
_KEYS_FRESH_S = 3_600.0
_KEYS_AGAIN_S = 60.0  # at least, between two looks for a key that is not known
_ALGORITHMS = ["RS256", "ES256", "PS256"]  # never "none", never a shared secret


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """How people sign in.

    Attributes:
        issuer: of the provider, which has /.well-known/openid-configuration: for Cognito
            https://cognito-idp.<region>.amazonaws.com/<user pool>.
        url: of the console, without a slash at the end; <url>/callback is registered at the provider.
        principals: principal by group; the first group of the user's that is here counts.
        groups_required: one of these groups may sign in; empty: every user of the provider.
        readers: members of these groups change nothing, whatever ACLs allow.
    """

    issuer: str
    client_id: str
    url: str
    client_secret: str = field(default="", repr=False)
    name_claim: str = "cognito:username"
    groups_claim: str = "cognito:groups"
    principals: Mapping[str, str] = field(default_factory=dict)
    groups_required: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value in (("issuer", self.issuer), ("url", self.url)):
            parts = urlsplit(value)
            is_local = parts.hostname in ("127.0.0.1", "localhost", "::1")
            if not parts.hostname or parts.scheme not in ("https", "http") or (parts.scheme == "http" and not is_local):
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"oidc {name} must be an https:// URL, not {value!r}")
        if not self.client_id:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "oidc client_id is required")

    @property
    def callback(self) -> str:
        return f"{self.url.rstrip('/')}/callback"


@dataclass(frozen=True, slots=True)
class User:
    """Who signed in."""

    name: str
    principal: str  # "User:ada"
    groups: tuple[str, ...]
    is_reader: bool


class SignInRefused(Exception):
    """The sign-in failed; the text is for the person."""


Post = Callable[[str, Mapping[str, str] | None], Any]
"""(URL, form or None) -> JSON; None gets. Awaitable."""


class Oidc:
    """The sign-ins of a console.

    Args:
        sealer: of the cookies of sign-ins.
        ask: gets and posts JSON; None makes HTTPS requests.
    """

    def __init__(self, settings: OidcSettings, clock: Clock, sealer: Sealer, ask: Post | None = None) -> None:
        with extra("console-oidc"):
            import joserfc  # noqa: F401
        self.settings = settings
        self._clock = clock
        self._ask = ask or _https
        self._sealer = sealer
        self._provider: dict[str, Any] = {}
        self._keys: Any = None
        self._keys_s = 0.0

    async def begin(self) -> tuple[str, str]:
        """Return the provider's URL to go to, and the value of the cookie that belongs to it. Raises SignInRefused."""
        provider = await self._discovered()
        state, verifier, nonce = (secrets.token_urlsafe(32) for _ in range(3))
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.callback,
            "scope": "openid profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": _digest(verifier),
            "code_challenge_method": "S256",
        }
        cookie = self._sealer.seal({"for": "sign-in", "state": state, "verifier": verifier, "nonce": nonce})
        return f"{provider['authorization_endpoint']}?{urlencode(query)}", cookie

    async def finish(self, query: Mapping[str, str], cookie: str) -> User:
        """Return the user of a callback. Raises SignInRefused."""
        pending = self._sealer.opened(cookie, PENDING_S)
        if pending is None or pending.get("for") != "sign-in":
            raise SignInRefused("This sign-in is unknown or too old: begin again.")
        if not hmac.compare_digest(str(pending["state"]).encode(), query.get("state", "").encode()):
            raise SignInRefused("This sign-in was begun in another browser: begin again.")
        if "error" in query:
            raise SignInRefused(f"The provider refused: {query.get('error_description') or query['error']}"[:300])
        provider = await self._discovered()
        form = {
            "grant_type": "authorization_code",
            "code": query.get("code", ""),
            "redirect_uri": self.settings.callback,
            "client_id": self.settings.client_id,
            "code_verifier": pending["verifier"],
        }
        if self.settings.client_secret:
            form["client_secret"] = self.settings.client_secret
        answer = await self._asked(str(provider["token_endpoint"]), form)
        claims = await self._claims(str(answer.get("id_token", "")))
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), str(pending["nonce"]).encode()):
            raise SignInRefused("The provider's answer belongs to another sign-in: begin again.")
        return self.user_of(claims)

    def user_of(self, claims: Mapping[str, Any]) -> User:
        """Return the user of verified claims. Raises SignInRefused for one who is not admitted."""
        settings = self.settings
        name = str(claims.get(settings.name_claim) or claims.get("sub") or "")
        found = claims.get(settings.groups_claim) or ()
        groups = tuple(map(str, found)) if isinstance(found, list) else ()
        if not name or any(ord(each) < 32 for each in name):
            raise SignInRefused("The provider's answer names nobody.")
        if settings.groups_required and not set(groups) & set(settings.groups_required):
            raise SignInRefused(f"{name} is in none of the groups that may use this console.")
        mapped = next((settings.principals[each] for each in groups if each in settings.principals), f"User:{name}")
        return User(name, mapped, groups, bool(set(groups) & set(settings.readers)))

    async def _claims(self, token: str) -> Mapping[str, Any]:
        """Return the claims of an ID token that this provider signed for this client. Raises SignInRefused."""
        from joserfc import jwt
        from joserfc.errors import ClaimError, JoseError

        settings = self.settings
        for attempt in range(2):
            keys = await self._signing_keys(again=attempt > 0)
            try:
                decoded = jwt.decode(token, keys, algorithms=_ALGORITHMS)
                registry = jwt.JWTClaimsRegistry(
                    now=self._clock.now_ms() // 1000,
                    leeway=_LEEWAY_S,
                    iss={"essential": True, "value": settings.issuer.rstrip("/")},
                    exp={"essential": True},
                    sub={"essential": True},
                )
                claims = {**decoded.claims, "iss": str(decoded.claims.get("iss", "")).rstrip("/")}
                registry.validate(claims)
            except (JoseError, ValueError) as error:
                if attempt == 0 and not isinstance(error, ClaimError):
                    continue  # the provider may have new keys
                raise SignInRefused("The provider's answer is not valid: begin again.") from None
            audience = claims.get("aud")
            if settings.client_id not in (audience if isinstance(audience, list) else [audience]):
                raise SignInRefused("The provider's answer is for another application.")
            return claims
        raise SignInRefused("The provider's answer is not valid: begin again.")

    async def _signing_keys(self, *, again: bool) -> Any:
        from joserfc.jwk import KeySet

        age_s = self._clock.monotonic() - self._keys_s
        if self._keys is None or age_s > (_KEYS_AGAIN_S if again else _KEYS_FRESH_S):
            provider = await self._discovered()
            keys: Any = await self._asked(str(provider["jwks_uri"]), None)
            self._keys = KeySet.import_key_set(keys)
            self._keys_s = self._clock.monotonic()
        return self._keys

    async def _discovered(self) -> dict[str, Any]:
        if not self._provider:
            issuer = self.settings.issuer.rstrip("/")
            found = await self._asked(f"{issuer}/.well-known/openid-configuration", None)
            if str(found.get("issuer", "")).rstrip("/") != issuer:
                raise SignInRefused("The provider calls itself by another name than the console's configuration.")
            self._provider = found
        return self._provider

    async def _asked(self, url: str, form: Mapping[str, str] | None) -> dict[str, Any]:
        try:
            found = await self._ask(url, form)
        except (OSError, ValueError, TimeoutError) as error:
            raise SignInRefused("The provider cannot be reached, or refused the code: begin again.") from error
        if not isinstance(found, dict):
            raise SignInRefused("The provider's answer cannot be read.")
        return found


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


async def _https(url: str, form: Mapping[str, str] | None) -> Any:
    """Get or post. Raises OSError, ValueError."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        asking = (
            session.get(url, allow_redirects=False)
            if form is None
            else session.post(url, data=dict(form), allow_redirects=False)
        )
        async with asking as answer:
            return await _json(answer)


async def _json(answer: aiohttp.ClientResponse) -> Any:
    if answer.status != 200:
        raise ValueError(f"HTTP {answer.status}")
    return await answer.json(content_type=None)
