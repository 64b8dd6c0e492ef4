"""Figures and tables of the paper: one file each, trained, measured and drawn."""
