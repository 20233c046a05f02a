"""The registry's errors: HTTP status, Confluent's error code, one sentence. Source: Confluent's API reference."""

from __future__ import annotations


class SchemaInvalid(ValueError):
    """The text is not a valid schema, or cannot be checked; the message says where and why."""


class RegistryError(Exception):
    """A refused request; the response is `{"error_code": ..., "message": ...}`.

    Attributes:
        status: HTTP status.
        error_code: Confluent's number: the status alone, or the status and two digits.
        message: says what to do.
    """

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.status = error_code if error_code < 1000 else error_code // 100
        self.message = message


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | None = None) -> RegistryError:
    return RegistryError(40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40406, f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    )


def no_subject_compatibility(subject: str) -> RegistryError:
    return RegistryError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_subject_mode(subject: str) -> RegistryError:
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(messages: list[str]) -> RegistryError:
    return RegistryError(
        409, "Schema being registered is incompatible with an earlier schema; details: [" + "; ".join(messages) + "]"
    )


def invalid_schema(why: str) -> RegistryError:
    return RegistryError(42201, f"Invalid schema: {why}")


def invalid_version(version: str) -> RegistryError:
    return RegistryError(
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
        'string "latest"',
    )


def invalid_compatibility(level: object) -> RegistryError:
    return RegistryError(
        42203,
        f"Invalid compatibility level {level!r}. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive",
    )


def invalid_mode(mode: object) -> RegistryError:
    return RegistryError(
        42204, f"Invalid mode {mode!r}. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT"
    )


def not_permitted(why: str) -> RegistryError:
    return RegistryError(42205, why)


def reference_exists(subject: str, version: int) -> RegistryError:
    return RegistryError(42206, f"One or more references exist to the schema {{subject={subject}, version={version}}}")


def id_does_not_match(schema_id: int) -> RegistryError:
    return RegistryError(42207, f"Schema already registered with an id other than {schema_id}")


def invalid_subject(subject: str, why: str) -> RegistryError:
    return RegistryError(42208, f"The specified subject '{subject}' is not a valid subject: {why}")


def schema_too_large(size: int, size_max: int) -> RegistryError:
    return RegistryError(42209, f"The schema has {size} bytes, more than {size_max}")


def store_unavailable() -> RegistryError:
    return RegistryError(50301, "The registry's table does not answer, or other requests write to it: try again")
