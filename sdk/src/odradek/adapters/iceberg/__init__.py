"""Apache Iceberg's catalogs, by PyIceberg (the extra `iceberg`): Glue, REST, SQL.

catalog.py   the port; imports PyIceberg at its first use
tables.py    load, commit, expire
columns.py   columns and their evolution
rest.py      the REST catalog with time limits
"""

from odradek.adapters.iceberg.catalog import IcebergCatalog, embedded_catalog, open_catalog

__all__ = ["IcebergCatalog", "embedded_catalog", "open_catalog"]
