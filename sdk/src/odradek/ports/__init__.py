"""The engine's dependencies as typing.Protocol. Adapters implement them; the simulation controls them."""
