"""Resolvers of decoders: one module for each way in which layers differ."""
