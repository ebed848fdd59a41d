"""The pure core: from observed state to actions. No clock but ``now``, no randomness, no I/O."""
