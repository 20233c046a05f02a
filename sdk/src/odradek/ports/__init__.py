"""What the engine needs of the world, as typing.Protocol. Adapters implement it; the simulation owns it."""
