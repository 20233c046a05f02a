"""The loops of connectors, source tasks and sink tasks, and what happens to a record on its way."""
