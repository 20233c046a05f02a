"""How often each word occurs: the first example of every stream library."""
