"""Tests that need a JVM: the protocol, exactness, foreign input, and faults."""
