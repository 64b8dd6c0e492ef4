"""Diffusion: noise schedules, training loss and sampling."""
