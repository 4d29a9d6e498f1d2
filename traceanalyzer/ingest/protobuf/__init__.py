"""Protobuf messages without a schema: what is on the wire of one message, and of many at a time."""
