"""Keeps the script here, which needs other libraries, from being searched for doctests."""

collect_ignore = ["make_others.py"]
