"""The admin client's users of the Kafka port, quotas and ACLs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.client.admin.change import Changing, raise_for
from odradek.client.messages import acls as acl_calls
from odradek.client.messages import quotas as quota_calls
from odradek.client.messages import users as user_calls
from odradek.errors import ErrorCode
from odradek.model.acl import AclBinding, AclFilter
from odradek.model.quota import ClientQuotaSet, QuotaEntity


class SecurityAdmin(Changing):
    """The part of Admin that manages who may do what, and how much."""

    # --- users of the Kafka port -------------------------------------------------------------------------------------

    async def create_user(self, name: str, password: str) -> None:
        """Create a user of the Kafka port (PLAIN and SCRAM), or set another password.

        The password does not leave this process; only keys derived from it do.

        Raises:
            KafkaError: UNACCEPTABLE_CREDENTIAL.
        """
        await self._change(
            user_calls.create_user_request(name, password),
            user_calls.AlterUserScramCredentialsResponse,
            "AlterUserScramCredentials",
            lambda response: [(f"user {r.user!r}", r.error_code, r.error_message) for r in response.results],
            reached=None,
        )

    async def delete_user(self, name: str) -> None:
        """Delete a user. Existing connections stay open.

        Raises:
            KafkaError: RESOURCE_NOT_FOUND.
        """
        mechanisms = (await self._describe_users([name]))[name]
        await self._change(
            user_calls.delete_user_request(name, mechanisms),
            user_calls.AlterUserScramCredentialsResponse,
            "AlterUserScramCredentials",
            lambda response: [(f"user {r.user!r}", r.error_code, r.error_message) for r in response.results],
            reached=ErrorCode.RESOURCE_NOT_FOUND,
        )

    async def list_users(self) -> list[str]:
        """Return the names of all users, sorted."""
        return sorted(await self._describe_users([]))

    async def _describe_users(self, names: Sequence[str]) -> dict[str, list[int]]:
        def check(response: user_calls.DescribeUserScramCredentialsResponse) -> None:
            raise_for("users", response.error_code, response.error_message)
            for result in response.results:
                raise_for(f"user {result.user!r}", result.error_code, result.error_message)

        response = await self._connection.call(
            user_calls.describe_users_request(names),
            user_calls.DescribeUserScramCredentialsResponse,
            "DescribeUserScramCredentials",
            check=check,
        )
        return {result.user: [int(info.mechanism) for info in result.credential_infos] for result in response.results}

    # --- quotas -----------------------------------------------------------------------------------------------------

    async def describe_client_quotas(self) -> ClientQuotaSet:
        """Return all quotas: entity -> {name: value}.

        Raises:
            KafkaError: CLUSTER_AUTHORIZATION_FAILED.
        """
        response = await self._connection.call(
            quota_calls.describe_quotas_request(),
            quota_calls.DescribeClientQuotasResponse,
            "DescribeClientQuotas",
            check=lambda response: raise_for("quotas", response.error_code, response.error_message),
        )
        return quota_calls.quota_set(response)

    async def alter_client_quotas(self, entity: QuotaEntity, values: Mapping[str, float | None]) -> None:
        """Set quotas of an entity, or remove them (None); its other quotas stay.

        Args:
            values: by Kafka's names (`odradek.model.quota`).

        Raises:
            KafkaError: INVALID_REQUEST, CLUSTER_AUTHORIZATION_FAILED.
        """
        await self._change(
            quota_calls.alter_quotas_request(entity, values),
            quota_calls.AlterClientQuotasResponse,
            "AlterClientQuotas",
            lambda response: [("the quota", entry.error_code, entry.error_message) for entry in response.entries],
            reached=None,
        )

    # --- access rules ---------------------------------------------------------------------------------------------

    async def create_acls(self, acls: Sequence[AclBinding]) -> None:
        """Create ACLs; existing ones are kept.

        From the first ACL on, everything that no ACL allows is denied, except to super users.

        Raises:
            KafkaError: INVALID_REQUEST, CLUSTER_AUTHORIZATION_FAILED.
        """
        rules = list(acls)
        await self._change(
            acl_calls.create_acls_request(rules),
            acl_calls.CreateAclsResponse,
            "CreateAcls",
            lambda response: [
                (f"rule for {acl.principal}", result.error_code, result.error_message)
                for acl, result in zip(rules, response.results, strict=True)
            ],
            reached=None,
        )

    async def describe_acls(self, wanted: AclFilter | None = None) -> list[AclBinding]:
        """Return the ACLs that match.

        Raises:
            KafkaError: CLUSTER_AUTHORIZATION_FAILED.
        """
        response = await self._connection.call(
            acl_calls.describe_acls_request(wanted or AclFilter()),
            acl_calls.DescribeAclsResponse,
            "DescribeAcls",
            check=lambda response: raise_for("rules", response.error_code, response.error_message),
        )
        return acl_calls.bindings(response)

    async def delete_acls(self, wanted: AclFilter) -> list[AclBinding]:
        """Delete the ACLs that match, and return them.

        Raises:
            KafkaError: CLUSTER_AUTHORIZATION_FAILED.
        """

        def check(response: acl_calls.DeleteAclsResponse) -> None:
            for result in response.filter_results:
                raise_for("rules", result.error_code, result.error_message)

        response = await self._connection.call(
            acl_calls.delete_acls_request(wanted), acl_calls.DeleteAclsResponse, "DeleteAcls", check=check
        )
        return acl_calls.deleted(response)
