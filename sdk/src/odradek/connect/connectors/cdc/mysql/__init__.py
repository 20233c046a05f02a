"""Change capture of MySQL and MariaDB by their binary log."""
