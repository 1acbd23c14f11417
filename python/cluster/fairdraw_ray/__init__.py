"""Runs the gate on a Ray cluster: `python -m fairdraw ray verify`."""
