"""Algebra -> DeltaProgram."""
