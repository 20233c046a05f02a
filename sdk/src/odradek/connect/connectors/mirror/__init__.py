"""Mirroring of another Kafka cluster into this one, and of topics of this one into another: MirrorMaker 2's work."""
