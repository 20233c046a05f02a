"""Files, on a local disk or in Amazon S3."""
