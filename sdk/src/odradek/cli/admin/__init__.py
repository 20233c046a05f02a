"""Commands that administer topics, groups, users and ACLs, and list the offsets of partitions."""
