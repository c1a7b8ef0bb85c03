"""Keeps the script here, which needs torch, from being searched for doctests."""

collect_ignore = ["make_packed.py"]
