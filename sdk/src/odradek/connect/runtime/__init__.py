"""Workers, and the operations on a cluster of them."""
