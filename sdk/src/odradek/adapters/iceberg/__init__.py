"""Apache Iceberg's catalogs, by PyIceberg (the extra `iceberg`): Glue, REST, SQL.

catalog.py   the port; imports PyIceberg at its first use
tables.py    load, commit, expire
columns.py   columns and their evolution
"""

from odradek.adapters.iceberg.catalog import IcebergCatalog, embedded_catalog, open_catalog

__all__ = ["IcebergCatalog", "embedded_catalog", "open_catalog"]
