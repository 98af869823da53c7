"""The forms by which an operator changes how a pool decides."""
